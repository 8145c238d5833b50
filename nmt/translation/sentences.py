"""Sentence segmentation by rules, for running text in English, German and French.

Other languages use the rules that all three share. Whether a full stop ends a sentence depends on
the word before it, which may be an abbreviation, an initial or an ordinal, and the word after it.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

_CLOSING = "\"'”“’»›)\\]"

# End of a sentence with closing quotes; French has a space before the guillemet. The possessive
# quantifier and the lookbehind keep the time for a run of marks linear.
_END = re.compile(rf"(?<![.!?…])([.!?…]++)(?:[{_CLOSING}]|</[^<>]*>|[\s\u202f](?=»))*(?=\s)")
_LAST_WORD = re.compile(r"[^\s>(\[{\"'„“«»‚‘’/–—]*$")
_NOT_BLANK = re.compile(r"\S")
# After white space, marks, signs and tags.
_NEXT_WORD = re.compile(r"(?:<[^<>]*>|[^\w<]|_)*([^\W_]+(?:['’])?)")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_ROMAN = re.compile(r"[IVXLC]+")
# Languages that write ordinals with a full stop.
_WITH_ORDINALS = {"de"}


@dataclass(frozen=True)
class _Rules:
    """Rules of one language; `sentence_ends.yaml` describes the words."""

    never: frozenset[str] = frozenset()
    seldom: frozenset[str] = frozenset()
    starters: frozenset[str] = frozenset()
    has_ordinals: bool = False


@cache
def _rules(language: str) -> _Rules:
    path = Path(__file__).with_name("sentence_ends.yaml")
    words = yaml.safe_load(path.read_text(encoding="utf-8")).get(language, {})
    sets = {key: frozenset(text.split()) for key, text in words.items()}
    return _Rules(**sets, has_ordinals=language in _WITH_ORDINALS)


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Return begin and end of each sentence of a paragraph, without the white space around it."""
    rules = _rules(language)
    spans: list[tuple[int, int]] = []
    begin = len(text) - len(text.lstrip())
    for match in _END.finditer(text):
        if match.start() >= begin and _is_end(text, begin, match, rules):
            spans.append((begin, match.end()))
            word = _NOT_BLANK.search(text, match.end())
            begin = word.start() if word else len(text)
    end = len(text.rstrip())
    if begin < end:
        spans.append((begin, end))
    return spans


def _is_end(text: str, begin: int, match: re.Match[str], rules: _Rules) -> bool:
    """Return whether punctuation ends the sentence that starts at `begin`."""
    after = _NEXT_WORD.match(text, match.end())
    if after is None or after[1][0].islower():
        return False  # punctuation alone is not a sentence
    if match[1] != ".":
        return True
    found = _LAST_WORD.search(text, begin, match.start())
    word = found[0] if found else ""
    is_first = match.start() - len(word) == begin
    return _ends_after(word, is_first, after[1].lower() in rules.starters, rules)


def _ends_after(word: str, is_first: bool, is_starter_next: bool, rules: _Rules) -> bool:
    """Return whether a full stop after a word ends the sentence, if a capitalised word follows."""
    lower = word.lower()
    if lower in rules.never:
        return False
    is_initial = len(word) == 1 or _ROMAN.fullmatch(word) is not None
    if is_first and (word.isdigit() or is_initial):
        return False  # number of a list item
    if word.isdigit():
        return is_starter_next or not rules.has_ordinals or len(word) > 3
    # J. R. R. Tolkien, Karl V., the U.S. capital
    is_ambiguous = (is_initial and word.isupper()) or lower in rules.seldom
    return is_starter_next or not (is_ambiguous or _DOTTED.fullmatch(word))
