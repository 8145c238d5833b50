"""Protected spans, which a translation keeps as they are, and texts without them.

These are tags of HTML, XML and XLIFF with native code and scripts in them, comments, entities,
addresses, names such as @user and #topic, file paths, code in backquotes, placeholders and escapes
of many programs, and numbers with units or currencies.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal
from unicodedata import category, normalize

from nmt.base.languages import closing_marks, num_words, sentence_marks
from nmt.translation.numbers import numbers, spellings
from nmt.translation.span_pattern import MONEY, SPAN

_TAG = re.compile(r"<(/?)(\w[^<>\s/]*)")
# Native code of TMX and XLIFF that begins or ends something, in pairs by their numbers.
_BEGINS, _ENDS = {"bpt", "bx", "sc"}, {"ept", "ex", "ec"}
_PARTNER = re.compile(r'\s(?:rid|startRef|i)="([^"]*)"')
_ID = re.compile(r'\sid="([^"]*)"')

Kind = Literal["opening", "closing", "single"]
_CDATA: dict[str, Kind] = {"<![CDATA[": "opening", "]]>": "closing"}


@dataclass(frozen=True)
class Mark:
    """Span that was removed from a text, or several of them with no words between.

    Attributes:
        text: the span.
        offset: index in the text without spans at which the span was.
        kind: whether it opens or closes a pair of tags that encloses text besides spans.
        is_attached: whether there was no white space before it, and after it.
    """

    text: str
    offset: int
    kind: Kind = "single"
    is_attached: tuple[bool, bool] = (False, False)


class _Scan:
    """The spans of a text.

    Attributes:
        matches: the spans.
        pairs: the index of the closing tag of each opening tag that has one.
    """

    def __init__(self, text: str, with_numbers: bool = True) -> None:
        found = SPAN.finditer(text)
        self.matches = [one for one in found if with_numbers or not one["number"]]
        self.pairs = _tag_pairs([match[0] for match in self.matches])
        begins = [match.start() for match in self.matches]
        ends = [0, *(match.end() for match in self.matches)]
        are_texts = (bool(text[a:b].strip()) for a, b in zip(ends, begins, strict=False))
        self._num_texts = list(accumulate(are_texts))  # up to each span

    def encloses_text(self, opening: int) -> bool:
        """Return whether there is any text besides spans inside the pair of an opening tag."""
        return self._num_texts[self.pairs[opening]] > self._num_texts[opening]


def protected_spans(text: str) -> list[str]:
    """Return the protected spans of a text in order."""
    return [match[0] for match in SPAN.finditer(text)]


def numbers_with_units(text: str) -> list[tuple[str, ...]]:
    """Return the spellings of each number with a unit."""
    return [
        tuple(
            blank.join(parts)
            for number in spellings(match["number"])
            for unit in [match["unit"] or match["currency"]]
            for parts in ([number, unit], [unit, number])[: 1 + bool(MONEY.fullmatch(unit))]
            for blank in ("\u00a0", " ", "")
        )
        for match in SPAN.finditer(text)
        if match["number"]
    ]


def amounts(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield number, without separators, unit and text of each number with a unit."""
    for one in SPAN.finditer(text):
        if one["number"]:
            unit = normalize("NFKC", one["unit"] or one["currency"])
            yield " ".join(numbers(one["number"])), unit, one[0]


def has_text(text: str) -> bool:
    """Return whether there is anything to translate besides spans."""
    return any(map(str.isalnum, SPAN.sub(" ", text)))


def essence(text: str, with_numbers: bool = True) -> tuple[Counter[str], int]:
    """Return what the spans of a translation must have in common with those of its source.

    This is how often each occurs, whatever the separators of numbers, and how many pairs of tags
    enclose text besides spans. `with_numbers` includes numbers with units.
    """
    scan = _Scan(text, with_numbers=False)
    spans = Counter(one[0] for one in scan.matches)
    if with_numbers:
        spans.update(f"{number} {unit}" for number, unit, _ in amounts(text))
    return spans, sum(map(scan.encloses_text, scan.pairs))


def without_spans(text: str, with_numbers: bool = True) -> tuple[str, list[Mark]]:
    """Return a text without its spans, and the spans.

    White space is left as if the spans had never been there. A space replaces spans between two
    words, as in `one<br/>two`. Nothing replaces the opening or closing tags of pairs, which may be
    inside a word, as in `<b>w</b>ord`.

    Args:
        text: the text.
        with_numbers: remove numbers with units, too.
    """
    spans = _units(_Scan(text, with_numbers))
    attached = zip(*(_attached(text, spans, side) for side in (0, 1)), strict=True)
    kept: list[str] = []
    marks: list[Mark] = []
    last = length = 0  # end of the last span in `text`, and of what is kept
    gaps: list[bool] = []  # whether there is white space before, between and after a run of spans
    kinds: set[Kind] = set()  # of the run
    for (begin, end, kind), sides in zip(spans, attached, strict=True):
        length = _keep(kept, length, text[last:begin], gaps, kinds)
        gaps.append(text[begin - 1 : begin].isspace())
        kinds.add(kind)
        marks.append(Mark(text[begin:end], length, kind, sides))
        last = end
    _keep(kept, length, text[last:], gaps, kinds)
    return "".join(kept), marks


def _keep(kept: list[str], length: int, segment: str, gaps: list[bool], kinds: set[Kind]) -> int:
    """Append what is between two runs of spans, unless it is blank; return the length of all."""
    body = segment.strip()
    if not body:
        return length
    if kept and gaps:
        end, start = kept[-1][-1], body[0]
        first, inner = gaps[0], [*gaps[1:], segment[0].isspace()]
        if any(inner):
            has_blank = first or category(end) not in ("Ps", "Pi")
        elif first:
            has_blank = not _closes(start)
        else:
            has_blank = (len(kinds) > 1 or "single" in kinds) and _needs_space(end, start)
        kept.append(" " * has_blank)
        length += has_blank
    kept.append(body)
    gaps.clear()
    kinds.clear()
    return length + len(body)


def _units(scan: _Scan) -> list[tuple[int, int, Kind]]:
    """Return begin, end and kind of what moves as a whole.

    These are the tags of pairs that enclose text besides spans, and everything else, joined where
    no white space is between. A pair without such text is one unit with what is in it.
    """
    closing = {end for begin, end in scan.pairs.items() if scan.encloses_text(begin)}
    units: list[tuple[int, int, Kind]] = []
    index = 0
    while index < len(scan.matches):
        begin, end = scan.matches[index].span()
        kind: Kind = "closing" if index in closing else "single"
        if index in scan.pairs:
            if scan.encloses_text(index):
                kind = "opening"
            else:
                index = scan.pairs[index]
                end = scan.matches[index].end()
        if units and kind == "single" and units[-1][1:] == (begin, "single"):
            begin = units.pop()[0]
        units.append((begin, end, kind))
        index += 1
    return units


def _attached(text: str, units: Sequence[tuple[int, int, Kind]], side: int) -> list[bool]:
    """Return whether there is no white space at a side of each unit, apart from paired tags."""
    found: list[bool] = []
    attaches: dict[int, bool] = {}  # whether the unit that is at an offset attaches the next one
    for begin, end, kind in reversed(units) if side else units:
        near, far = (end, begin) if side else (begin, end)
        character = text[near : near + 1] if side else text[max(0, near - 1) : near]
        found.append(attaches.get(near, bool(character.strip())))
        attaches[far] = found[-1] or kind == "single"
    return found[::-1] if side else found


def _closes(character: str) -> bool:
    """Return whether a character belongs to the word before it."""
    return character in f"{sentence_marks()}{closing_marks()}…,;:"


def _needs_space(end: str, start: str) -> bool:
    """Return whether a space must separate two characters between which spans were removed."""
    letters = [one for one in (end, start) if one.isalnum()]
    is_between_words = start.isalnum() and (end.isalnum() or (_closes(end) and end not in "'’"))
    return is_between_words and all(num_words(2 * one) == 1 for one in letters)


def _tag_pairs(spans: Sequence[str]) -> dict[int, int]:
    """Return the index of the closing tag of each opening tag that has one; pairs do not cross."""
    pairs: dict[int, int] = {}
    opened: list[tuple[int, str]] = []  # index and name
    known: Counter[str] = Counter()  # opened tags by name
    for index, span in enumerate(spans):
        kind, name = _role(span)
        if kind == "closing":
            while known[name]:
                begin, other = opened.pop()
                known[other] -= 1
                if other == name:
                    pairs[begin] = index
                    break
        elif kind == "opening":
            opened.append((index, name))
            known[name] += 1
    return pairs


def _role(span: str) -> tuple[Kind, str]:
    """Return the kind of a tag, and what it has in common with its partner."""
    if span in _CDATA:
        return _CDATA[span], "CDATA"
    tag = _TAG.match(span)
    if not tag:
        return "single", ""
    name = tag[2].lower()
    if name in _BEGINS | _ENDS and span[1] != "/":
        number = _PARTNER.search(span) or _ID.search(span)
        return "opening" if name in _BEGINS else "closing", f"#{number[1] if number else ''}"
    if tag[1]:
        return "closing", name
    is_single = span.endswith("/>") or "</" in span  # the second is an element that is kept
    return "single" if is_single else "opening", name
