"""Filters of training pairs, as pure functions of a normalised pair and the configuration.

Each filter returns the reason for dropping the pair, or "" to keep it. A pair is kept if every
filter keeps it. All filters check each pair, so that their overlap is known; a pair with an empty
side is only reported as empty. Filters that compare the pairs of the whole corpus are in
`data_prep.merge_shards`.

The ratio of lengths is compared with that of the source: Chinese has a third of the characters of
English. It is not checked if both sides have fewer than 20 characters: "No." and "Aber nein!" is a
correct pair. The share of letters is not checked on a side with fewer than 20 characters.
"""

import math
import re
import statistics
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from data_prep.clean import Pair, normalise_pair
from data_prep.languages import other_language
from nmt.base.languages import is_unspaced, num_words, split_words
from nmt.base.system import require_package
from nmt.config import CleaningConfig

SHORT_CHARACTERS = 20

COPY_MIN_WORDS = 3
"""The copy filter does not apply to shorter texts, such as names, numbers and "OK"."""

_PHRASE_WORDS = 3
_WORD_CHARACTERS = 2
"""Characters that count as a word in scripts without blanks: the mean of Chinese and Japanese."""

_RATIO_CHARACTERS = 5
"""Added to both sides before their ratio is computed, because it varies more in short texts."""

_NEUTRAL_RATIOS = 5
"""A few pairs do not define what is usual: the median includes this many ratios of 1."""

_NUMBER = re.compile(r"\d+")
_ADDRESS = re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\S+")
_ADDRESS_MARKS = "://", "www.", "@"


Filter = Callable[[Pair, CleaningConfig, tuple[str, str]], str]
"""Given a pair, the filters and the languages, returns the reason for dropping the pair, or ""."""


def _empty(pair: Pair, _config: CleaningConfig, _languages: tuple[str, str]) -> str:
    if pair.source and pair.target:
        return ""
    return f"{'target' if pair.source else 'source'} is empty"


def _length(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    for side, text in zip(Pair._fields, pair, strict=True):
        if len(text) > config.max_characters:
            return f"{side} has {len(text)} characters"
        if (number := _limited_words(text)) > config.max_words:
            return f"{side} has {number} words"
    return ""


def _limited_words(text: str) -> int:
    """Count the words of a text that limits in words refer to, see `_WORD_CHARACTERS`."""
    # Normalised words are separated by one space.
    blank_words = text.count(" ") + 1
    return max(blank_words, num_words(text) // _WORD_CHARACTERS)


def usual_ratio(pairs: Iterable[Pair]) -> float:
    """Return the median ratio of target to source in characters, without short pairs."""
    logarithms = [0.0] * _NEUTRAL_RATIOS
    for pair in pairs:
        source, target = map(len, normalise_pair(*pair))
        if min(source, target) and max(source, target) >= SHORT_CHARACTERS:
            logarithms.append(math.log(target / source))
    return math.exp(statistics.median(logarithms))


def _ratio(pair: Pair, config: CleaningConfig, usual: float) -> str:
    # In characters of the language that needs more of them.
    source, target = len(pair.source) * max(usual, 1), len(pair.target) / min(usual, 1)
    shorter, longer = sorted((source, target))
    if longer < SHORT_CHARACTERS:
        return ""
    if longer + _RATIO_CHARACTERS > config.max_length_ratio * (shorter + _RATIO_CHARACTERS):
        lengths = f"{len(pair.source)} against {len(pair.target)} characters"
        return f"{lengths}; usual is 1 to {usual:.2f}"
    return ""


def _copy(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    if (
        config.drop_copies
        and pair.source.casefold() == pair.target.casefold()
        and _limited_words(pair.source) >= COPY_MIN_WORDS
    ):
        return "both sides are the same text, apart from case"
    return ""


def _repetition(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    """Drop text with a repeated phrase, such as translation systems sometimes produce."""
    if not config.max_phrase_repeats:
        return ""
    for side, text in zip(Pair._fields, pair, strict=True):
        words, length = text.split(" "), _PHRASE_WORDS
        if is_unspaced(text):
            words, length = split_words(text), _PHRASE_WORDS * _WORD_CHARACTERS
        # Fast test first: a repeated phrase consists of repeated words.
        num_repeated = len(words) - len(set(words))
        if num_repeated < config.max_phrase_repeats:
            continue
        phrases = zip(*(words[start:] for start in range(length)), strict=False)
        [(phrase, count)] = Counter(phrases).most_common(1) or [((), 0)]
        if count > config.max_phrase_repeats:
            return f"{side} has '{' '.join(phrase)}' {count} times"
    return ""


def _letters(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    """Drop tables, formulas and code."""
    for side, text in zip(Pair._fields, pair, strict=True):
        if not config.min_letter_share or len(text) < SHORT_CHARACTERS:
            continue
        num_characters = len(text) - text.count(" ")
        # Fast test first: letters without combining marks are enough in nearly all texts.
        if sum(map(str.isalpha, text)) >= config.min_letter_share * num_characters:
            continue
        share = sum(map(is_letter, text)) / num_characters
        if share < config.min_letter_share:
            return f"{100 * share:.0f} % of {side} are letters"
    return ""


@cache
def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or a vowel sign or accent that combines with one."""
    if unicodedata.category(character) in ("Mc", "Mn"):
        return not "\ufe00" <= character <= "\ufe0f"  # these marks choose the form of an emoji
    return character.isalnum() and not character.isdecimal()


def _numbers(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    """Drop a pair if its sides have different numbers: digits, whatever separates them.

    The digits of all scripts are the same: ٣ is 3.
    """
    if not config.same_numbers:
        return ""
    source, target = (Counter(map(_digits, _NUMBER.findall(text))) for text in pair)
    return _difference("numbers", source, target)


def _digits(number: str) -> str:
    is_ascii = number.isascii()
    return number if is_ascii else "".join(str(unicodedata.digit(one)) for one in number)


def _addresses(pair: Pair, config: CleaningConfig, _languages: tuple[str, str]) -> str:
    """Drop a pair if its sides have different URLs or e-mail addresses."""
    has_address = any(mark in text for text in pair for mark in _ADDRESS_MARKS)
    if not config.same_addresses or not has_address:
        return ""
    found = ([one.strip(".,;:!?\"'()<>") for one in _ADDRESS.findall(text)] for text in pair)
    source, target = map(Counter, found)
    return _difference("addresses", source, target)


def _difference(what: str, source: Counter[str], target: Counter[str]) -> str:
    if source == target:
        return ""
    only = (" ".join(sorted((a - b).elements())) for a, b in ((source, target), (target, source)))
    source_only, target_only = (text or "none" for text in only)
    return f"{what} of one side only: {source_only} against {target_only}"


def _language(pair: Pair, config: CleaningConfig, languages: tuple[str, str]) -> str:
    """Drop a pair if a side is most probably in another language."""
    if not config.identify_language:
        return ""
    for side, text, code in zip(Pair._fields, pair, languages, strict=True):
        if other := other_language(text, code):
            return f"{side} is {other}"
    return ""


FILTERS: dict[str, Filter] = {
    "empty": _empty,
    "length": _length,
    "copy": _copy,
    "repetition": _repetition,
    "letters": _letters,
    "numbers": _numbers,
    "addresses": _addresses,
    "language": _language,
}


RATIO = "ratio"
"""Name of the filter that compares the lengths of the sides."""

SCORE = "score"
"""Name of the filter that compares the scores of pairs with the minimum."""

GLOBAL_FILTERS = (
    "test_sentence",
    "duplicate",
    "near_duplicate",
    "duplicate_source",
    "duplicate_target",
)
"""Filters that compare the pairs of the whole corpus; see `data_prep.merge_shards`."""

MEANINGS = {
    "empty": "a side is empty",
    "length": "a side is longer than max_characters or max_words",
    "copy": "both sides are equal, apart from case",
    "repetition": "three words in a row occur more often than max_phrase_repeats",
    "letters": "the share of letters of a side is below min_letter_share",
    "numbers": "the sides have different numbers",
    "addresses": "the sides have different URLs or e-mail addresses",
    "language": "a side is in another language",
    RATIO: "one side is longer than max_length_ratio times its usual length beside the other",
    SCORE: "the score of the pair is below min_score",
    "test_sentence": "a side is a sentence of valid or of a test set",
    "duplicate": "the pair occurred before",
    "near_duplicate": "a pair with the same letters occurred before",
    "duplicate_source": "the source occurred before",
    "duplicate_target": "the target occurred before",
}


def clean_pair(
    source: str,
    target: str,
    config: CleaningConfig,
    languages: tuple[str, str],
    score: float | None = None,
    usual: float = 1.0,
) -> tuple[Pair, dict[str, str]]:
    """Normalise a pair; return it with the reason of each filter that drops it.

    Args:
        source: the raw text.
        target: its translation.
        config: the filters.
        languages: codes of source and target.
        score: the score of the pair, if it has one.
        usual: `usual_ratio` of the source.
    """
    if config.repair_unicode:
        source, target = _repaired(source), _repaired(target)
    pair = normalise_pair(source, target)
    if reason := _empty(pair, config, languages):
        return pair, {"empty": reason}
    reasons = {
        name: reason
        for name, check in FILTERS.items()
        if (reason := check(pair, config, languages))
    }
    if reason := _ratio(pair, config, usual):
        reasons[RATIO] = reason
    if score is not None and score < config.min_score:
        reasons[SCORE] = f"score {score:g}"
    return pair, reasons


def _repaired(text: str) -> str:
    """Undo wrong decoding and HTML entities; keep quotes, ligatures and wide characters."""
    repaired: str = _ftfy().fix_text(
        text, uncurl_quotes=False, fix_latin_ligatures=False, fix_character_width=False
    )
    return repaired


@cache
def _ftfy() -> Any:
    require_package("corpus.cleaning.repair_unicode=true", "ftfy", "data")
    import ftfy  # noqa: PLC0415 - few corpora need it

    return ftfy
