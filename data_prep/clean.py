"""The cleaning rules: pure, so that nothing here touches a disk.

Every text is normalised; then a training pair is kept or rejected by the first rule that it breaks.
Text of valid and of test sets is normalised too, but never rejected: their lines stay aligned with
what other people scored.

Normalisation keeps what a reader sees:

- white space of any kind is one space, and none at the ends. That includes the no-break spaces of
  French, U+2028, U+0085, control characters, and the "\\r" that a file with Windows line ends has
  at the end of each line;
- Unicode's composed form (NFC), so that é is one character whoever typed it;
- U+FEFF, the mark that some editors put at the start of a file, is removed;
- U+2581 (▁), which stands for a space inside sentencepiece, becomes "_".

`data_prep.train_tokenizer` puts the same normalisation into the tokenizer model, so that raw text
is treated alike when a trained model reads it.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nmt.config import CleaningConfig

CLEANING_VERSION = 1
"""Part of the fingerprint of cleaned text: raise it whenever this module's results change."""

WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")

RATIO_EXEMPT_CHARACTERS = 20
"""The ratio says nothing about pairs whose longer side is shorter than this: "No." and "Aber
nein!" are a fair pair."""

COPY_MIN_WORDS = 3
"""Shorter equal sides are often right: names, numbers, "OK"."""


class Rule(Enum):
    """Why a training pair is dropped, in the order in which the rules are asked."""

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
    """A training pair that is dropped."""

    rule: Rule
    """The first rule that the pair breaks."""
    detail: str
    """What was found, for the report: `source has 2431 characters`."""


def normalise(text: str) -> str:
    """The text as every later stage sees it; see the module's documentation."""
    if not text.isascii():
        text = text.replace("\ufeff", "").replace("\u2581", "_")
        text = WHITE_SPACE.sub(" ", text).strip(" ")
        return (
            text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)
        )
    return WHITE_SPACE.sub(" ", text).strip(" ")


def normalise_pair(source: str, target: str) -> Pair:
    """Both sides normalised."""
    return Pair(normalise(source), normalise(target))


def clean_pair(source: str, target: str, config: CleaningConfig) -> Pair | Rejection:
    """The normalised pair, or why it is dropped. Duplicates need a memory: `SeenPairs` has it."""
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
        # Counting spaces is enough, and cheap: normalised words are one space apart.
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
