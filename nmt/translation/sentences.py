"""Splitting of text into sentences, and of over-long text into segments, by rules.

Sentences end at the marks of all scripts that Unicode lists. Marks that Latin text does not have,
such as 。 and ।, need no blank after them. The rules for the full stop are for running text in
English, German and French; other languages use those that all three share. Whether it ends a
sentence depends on the word after it, and on the word before it, which may be an abbreviation, an
initial or an ordinal.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from nmt.base.languages import closing_marks, primary, sentence_marks, unspaced_characters
from nmt.tokenizer import Tokenizer

_LATIN_MARKS = ".!?…‥"
_LAST_WORD = re.compile(r"[^\s>(\[{\"'„“«»‚‘’/–—]*$")
_NOT_BLANK = re.compile(r"\S")
# The word after white space, marks, signs and tags; empty if there is none.
_NEXT_WORD = re.compile(r"(?:<[^<>]*>|[^\w<]|_)*+((?:[^\W_]+['’]?)?)")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,3}\.)+[^\W\d_]{1,3}")
_ROMAN = re.compile(r"[IVXLC]+")
# Languages that write ordinals with a full stop.
_WITH_ORDINALS = {"de"}
# A longer word is no abbreviation; without a limit the time would not be linear.
_MAX_WORD = 40


@cache
def _end() -> re.Pattern[str]:
    """Return the pattern of marks with closing quotes after them.

    French has a space before the guillemet, and “ opens a quotation after marks such as 。 but may
    close one after Latin marks. The possessive quantifiers and the lookbehind keep the time for a
    run of marks linear.
    """
    marks = re.escape(f"{sentence_marks()}…‥")
    quotes = re.escape(closing_marks().replace("“", ""))
    closing = rf"[{quotes}]|(?<=[{_LATIN_MARKS}])“|</[^<>]*>|[\s\u202f](?=»)"
    return re.compile(rf"(?<![{marks}])([{marks}]++)((?:{closing})*+)")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{unspaced_characters()}]")


@cache
def _words(language: str) -> dict[str, frozenset[str]]:
    """Return the words of the rules of a language by their kind; see `sentence_ends.yaml`."""
    path = Path(__file__).with_name("sentence_ends.yaml")
    words = yaml.safe_load(path.read_text(encoding="utf-8")).get(language, {})
    return {
        kind: frozenset(words.get(kind, "").split()) for kind in ("never", "seldom", "starters")
    }


def sentence_spans(text: str, language: str) -> list[tuple[int, int]]:
    """Return start and end of each sentence of a paragraph, without the white space around it."""
    spans: list[tuple[int, int]] = []
    language = primary(language)
    begin = len(text) - len(text.lstrip())
    after = None
    for match in _end().finditer(text):
        if not _may_end(text, match):
            continue
        # Marks with no word between them have the same next word: one search for all of them.
        if after is None or after.start(1) < match.end():
            after = _NEXT_WORD.match(text, match.end())
        if not (after and after[1] and match.start() >= begin):
            continue
        if match[1][-1] not in _LATIN_MARKS or _is_end(text, begin, match, after[1], language):
            spans.append((begin, match.end()))
            word = _NOT_BLANK.search(text, match.end())
            begin = word.start() if word else len(text)
    end = len(text.rstrip())
    if begin < end:
        spans.append((begin, end))
    return spans


def _may_end(text: str, match: re.Match[str]) -> bool:
    """Return whether the characters at the marks `match` allow the end of a sentence there."""
    follower, mark = text[match.end() : match.end() + 1], match[1][-1]
    if not follower or follower.isspace():
        return bool(follower)
    if mark in _LATIN_MARKS:
        return mark in "!?" and not match[2] and _unspaced().match(follower) is not None
    if match[2]:  # 「はい。」と言った。
        return unicodedata.category(follower) in ("Ps", "Pi")
    return not (mark == "．" and follower.isdecimal())


def _is_end(text: str, begin: int, match: re.Match[str], after: str, language: str) -> bool:
    """Return whether the Latin marks `match` end the sentence that starts at `begin`.

    `after` is the next word.
    """
    # Georgian letters are lower case, but no sentence begins with the upper case.
    if after[0].islower() and after[0].title() != after[0]:
        return False
    if match[1] != ".":
        return True
    words = _words(language)
    is_starter_next = after.lower() in words["starters"]
    found = _LAST_WORD.search(text, max(begin, match.start() - _MAX_WORD), match.start())
    word = found[0] if found else ""
    is_initial = len(word) == 1 or _ROMAN.fullmatch(word) is not None
    begins_sentence = match.start() - len(word) == begin
    if word.lower() in words["never"]:
        return False
    if begins_sentence and (word.isdigit() or is_initial):
        return False  # number of a list item
    if word.isdigit():  # an ordinal, unless it is a year
        return is_starter_next or language not in _WITH_ORDINALS or len(word) > 3
    # J. R. R. Tolkien, Karl V., the U.S. capital
    is_ambiguous = (is_initial and word.isupper()) or word.lower() in words["seldom"]
    return is_starter_next or not (is_ambiguous or _DOTTED.fullmatch(word))


@dataclass(frozen=True)
class Segmenter:
    """Splits texts of the source language into segments of at most `max_ids` ids, without EOS."""

    tokenizer: Tokenizer
    language: str
    max_ids: int

    def segments(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Return the ids of the segments of each text: one, or several if it is too long.

        A blank text has no segment.
        """
        segments = []
        for text, ids in zip(texts, self.tokenizer.encode(texts), strict=True):
            is_short = len(ids) <= self.max_ids
            rows = [ids] if is_short else self.tokenizer.encode(self._split(text))
            segments.append([row for row in rows if row and text.strip()])
        return segments

    def _split(self, text: str) -> list[str]:
        """Split a text into sentences, and over-long sentences between words.

        Short sentences are not joined: a model trained on single sentences would translate only
        the first one.
        """
        segments: list[str] = []
        for begin, end in sentence_spans(text, self.language):
            sentence = text[begin:end]
            segments += [sentence] if self.fits(sentence) else self._join(sentence.split())
        return [part for segment in segments for part in self._halve(segment)]

    def _join(self, words: list[str]) -> list[str]:
        """Join neighbouring words as long as they fit together."""
        lengths = [len(ids) for ids in self.tokenizer.encode(words)]
        joined: list[str] = []
        available = 0
        for word, length in zip(words, lengths, strict=True):
            if joined and length <= available:
                joined[-1] += f" {word}"
                available -= length
            else:
                joined.append(word)
                available = self.max_ids - length
        return joined

    def fits(self, text: str) -> bool:
        """Return whether a text is a single segment."""
        return len(self.tokenizer.encode([text])[0]) <= self.max_ids

    def _halve(self, text: str) -> list[str]:
        """Halve a text until its parts fit; a single character cannot be split."""
        if len(text) <= 1 or self.fits(text):
            return [text]
        middle = len(text) // 2
        return self._halve(text[:middle]) + self._halve(text[middle:])
