"""Normalise text, as a pure function.

Every text is normalised, also that of `valid` and of test sets:

- White space of any kind is removed at both ends, and becomes one space elsewhere. It includes
  no-break spaces, U+2028, U+0085, control characters, and the carriage returns of Windows lines.
- Characters are in Unicode's composed form (NFC).
- U+FEFF, which some editors write at the start of a file, is removed.
- U+2581 (▁), which represents a space in sentencepiece, becomes "_".

`data_prep.train_tokenizer` adds the same normalisation to the tokenizer model, so that a trained
model treats raw text in the same way.
"""

import re
import unicodedata
from typing import NamedTuple

from nmt.tokenizer import nfc

CLEANING_VERSION = 9
"""Part of the fingerprint of cleaned text: raise it whenever normalisation or a filter changes."""

WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class ScoredPair(Pair):
    """A raw pair with a score from another program, such as COMET-QE or Bicleaner."""

    score: float

    @classmethod
    def of(cls, source: str, target: str, score: float) -> "ScoredPair":
        """Return a pair with its score."""
        pair = cls(source, target)
        pair.score = score
        return pair


def score_of(pair: Pair) -> float | None:
    """Return the score of a raw pair; None if it has none."""
    return pair.score if isinstance(pair, ScoredPair) else None


def normalise(text: str) -> str:
    """Normalise white space and characters, as described at the top of this module."""
    # The only white space of a printable text is " ". Most lines of a corpus skip this block.
    if not text.isprintable() or "  " in text or "\u2581" in text:
        text = text.replace("\ufeff", "").replace("\u2581", "_")
        text = WHITE_SPACE.sub(" ", text)
    text = text.strip(" ")
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return nfc(text)


def normalise_pair(source: str, target: str) -> Pair:
    """Normalise both sides of a pair."""
    return Pair(normalise(source), normalise(target))
