"""Normalise text and decide which training pairs to keep, as pure functions.

Every text is normalised. A training pair is then kept, or rejected by the first rule that it
violates. Text of `valid` and of test sets is normalised but never rejected, so that scores remain
comparable with those of others.

Normalisation preserves the visible text:

- White space of any kind becomes one space, and is removed at both ends. This includes the no-break
  spaces of French, U+2028, U+0085, control characters, and the carriage return of Windows lines.
- Characters are in Unicode's composed form (NFC).
- U+FEFF, which some editors write at the start of a file, is removed.
- U+2581 (▁), which represents a space in sentencepiece, becomes "_".

`data_prep.train_tokenizer` adds the same normalisation to the tokenizer model, so that a trained
model treats raw text in the same way.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nmt.config import CleaningConfig

CLEANING_VERSION = 2
"""Part of the fingerprint of cleaned text: raise it whenever the results of this module change."""

WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")

RATIO_EXEMPT_CHARACTERS = 20
"""The ratio rule does not apply if both sides are shorter: "No." and "Aber nein!" is a correct
pair."""

COPY_MIN_WORDS = 3
"""The copy rule does not apply to shorter texts, such as names, numbers and "OK"."""


class Rule(Enum):
    """Reason for dropping a training pair, in the order in which the rules apply."""

    empty = "empty"
    length = "length"
    ratio = "ratio"
    copy = "copy"
    duplicate = "duplicate"


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class Rejection:
    """Reason for rejecting a training pair.

    Attributes:
        rule: the first rule that the pair violates.
        detail: finding for the report, such as `source has 2431 characters`.
    """

    rule: Rule
    detail: str


def normalise(text: str) -> str:
    """Normalise white space and characters, as described at the top of this module."""
    # A printable text has no white space but " ". Most lines of a corpus end here.
    if not text.isprintable() or "  " in text or "\u2581" in text:
        text = text.replace("\ufeff", "").replace("\u2581", "_")
        text = WHITE_SPACE.sub(" ", text)
    text = text.strip(" ")
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def normalise_pair(source: str, target: str) -> Pair:
    """Normalise both sides of a pair."""
    return Pair(normalise(source), normalise(target))


def clean_pair(source: str, target: str, config: CleaningConfig) -> Pair | Rejection:
    """Return the normalised pair, or the reason for rejecting it; duplicates are not detected."""
    pair = normalise_pair(source, target)
    return (
        _check_empty(pair)
        or _check_length(pair, config)
        or _check_ratio(pair, config)
        or _check_copy(pair, config)
        or pair
    )


def _check_empty(pair: Pair) -> Rejection | None:
    if pair.source and pair.target:
        return None
    side = "target" if pair.source else "source"
    return Rejection(Rule.empty, f"{side} is empty")


def _check_length(pair: Pair, config: CleaningConfig) -> Rejection | None:
    for side, text in (("source", pair.source), ("target", pair.target)):
        if len(text) > config.max_characters:
            return Rejection(Rule.length, f"{side} has {len(text)} characters")
        # Normalised words are separated by one space.
        num_words = text.count(" ") + 1
        if num_words > config.max_words:
            return Rejection(Rule.length, f"{side} has {num_words} words")
    return None


def _check_ratio(pair: Pair, config: CleaningConfig) -> Rejection | None:
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if longer < RATIO_EXEMPT_CHARACTERS or longer <= config.max_length_ratio * shorter:
        return None
    return Rejection(Rule.ratio, f"{len(pair.source)} against {len(pair.target)} characters")


def _check_copy(pair: Pair, config: CleaningConfig) -> Rejection | None:
    if (
        config.drop_copies
        and pair.source.casefold() == pair.target.casefold()
        and pair.source.count(" ") + 1 >= COPY_MIN_WORDS
    ):
        return Rejection(Rule.copy, "both sides are the same text")
    return None
