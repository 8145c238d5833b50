"""Texts with formatting, and the transfer of the formatting to a translation.

A unit is the text of a paragraph as a list of pieces: text in one format, or an object such as a
footnote mark. Only the text is translated. Formats and objects follow the word alignment.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, compress, groupby, takewhile
from typing import Any

from nmt.documents.words import Symbol, symbols
from nmt.translation.request import Links, core_span, word_spans

Styles = tuple[Hashable, ...]
"""The inline elements around a text, outermost first."""

_CLOSING = ".,;:!?…)]}»”。、，；：！？"  # signs without a blank before them


@dataclass(frozen=True)
class Piece:
    """Text in one format, or an object.

    Attributes:
        text: the text; of an object, the white space that it stands for.
        styles: the inline elements around it.
        item: the object; None for text.
        is_word: whether the object stands between blanks, as a word does.
    """

    text: str
    styles: Styles = ()
    item: Any = None
    is_word: bool = False


Unit = list[Piece]


def to_unit(pieces: Iterable[Piece]) -> Unit:
    """Join neighbouring texts of the same format; of the blanks around an object, keep one."""
    unit: Unit = []
    for piece in _with_symbols(pieces):
        last = unit[-1] if unit else Piece("")
        text = piece.text
        if piece.item is None and last.item is not None and not last.text and text[:1] == " ":
            before = next((one.text for one in reversed(unit) if one.text), " ")
            if before[-1:] == " ":
                unit[-1] = replace(last, is_word=True)
                text = text[1:]
        if piece.item is None and last.item is None and unit and last.styles == piece.styles:
            unit[-1] = replace(last, text=last.text + text)
        elif text or piece.item is not None:
            unit.append(replace(piece, text=text))
    return unit


def _with_symbols(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Make the symbols of texts objects: a model can seldom write them."""
    for piece in pieces:
        if piece.item is not None or (piece.text.isascii() and piece.text.isprintable()):
            yield piece
            continue
        for index, text in enumerate(symbols().split(piece.text)):
            is_symbol = index % 2 == 1
            shown = (" " if text.isspace() else "") if is_symbol else text
            yield replace(piece, text=shown, item=Symbol(text) if is_symbol else None)


def text_of(unit: Sequence[Piece]) -> str:
    """Return the text of a unit."""
    return "".join(piece.text for piece in unit)


def placed(unit: Sequence[Piece], translation: str, links: Links | None) -> Unit:
    """Transfer formats and objects of a unit to its translation.

    Each word takes the format of the source word that it is linked to; punctuation at its end takes
    that of the punctuation there. An object follows the word before it, if it is attached to it,
    else it precedes the translation of the word after it. Objects keep their order. Without links,
    words are linked by their relative position.
    """
    aligned = _Aligned(unit, translation, links)
    source, styles = aligned.source, aligned.styles()
    result: Unit = []
    last = 0
    for (piece, position), offset in zip(aligned.objects, aligned.offsets(), strict=True):
        result += _runs(translation, styles, last, offset)
        last = offset
        # Between two objects there is no blank but that of the first one.
        is_before = " " if not result or result[-1].item is not None else result[-1].text[-1:]
        is_after = translation[offset : offset + 1]
        if piece.text:  # an object that is a blank takes the place of one
            last += is_after.isspace()
            if is_before == " " and not is_after.isspace() and result and not result[-1].item:
                result[-1] = replace(result[-1], text=result[-1].text[:-1])
        # An object that is, or begins, a word has a blank before it, and so on.
        is_beginning = not source[:position].strip() or source[position - 1].isspace()
        needs_before = not piece.text and is_beginning and offset > 0
        is_end = is_after.isspace() or is_after in _CLOSING  # or nothing
        is_joined = is_after.isalnum() and not source[position : position + 1].isalnum()
        needs_after = not piece.text and (not is_end if piece.is_word else is_joined)
        result += [Piece(" ")] * (needs_before and not is_before.isspace())
        result.append(piece)
        result += [Piece(" ")] * needs_after
    result += _runs(translation, styles, last, len(translation))
    # A blank between two pieces is in the elements that both are in.
    framed = [Piece(""), *result, Piece("")]
    for index, piece in enumerate(result):
        if piece.item is None and piece.text.isspace():
            shared = common(framed[index].styles, framed[index + 2].styles)
            result[index] = replace(piece, styles=shared)
    return result


def without_repeated(unit: Sequence[Piece], is_unique: Callable[[Hashable], bool]) -> Unit:
    """Leave each element that must not occur twice only around its longest text."""
    longest: dict[Hashable, tuple[int, int]] = {}  # length of a run of pieces, and its first piece
    current: dict[Hashable, tuple[int, int]] = {}
    for index, piece in enumerate(unit):
        before = {style: current.get(style, (0, index)) for style in piece.styles}
        current = {s: (length + len(piece.text), first) for s, (length, first) in before.items()}
        for style, run in current.items():
            if run[0] > longest.get(style, (-1, 0))[0]:
                longest[style] = run
    kept: list[Piece] = []
    inside: set[Hashable] = set()
    for index, piece in enumerate(unit):
        inside = {s for s in piece.styles if s in inside or longest[s][1] == index}
        some = tuple(s for s in piece.styles if s in inside or not is_unique(s))
        kept.append(replace(piece, styles=some))
    return kept


def _most_common(styles: Iterable[Styles]) -> Styles:
    return next((one for one, _ in Counter(styles).most_common(1)), ())


class _Aligned:
    """A unit and its translation.

    Attributes:
        unit: the unit.
        source: its text.
        words: where the words of the source are.
        translation: the translation.
        found: where the words of the translation are.
        links: links between these words.
        objects: the objects of the unit, and their offsets in the source.
    """

    def __init__(self, unit: Sequence[Piece], translation: str, links: Links | None) -> None:
        self.unit, self.source, self.translation = unit, text_of(unit), translation
        self.words, self.found = word_spans(self.source), word_spans(translation)
        if links is None:
            num_words, count = len(self.words), len(self.found)
            links = [(j * num_words // count, j) for j in range(count) if num_words]
        self.links = links
        starts = accumulate((len(piece.text) for piece in unit), initial=0)
        pairs = zip(unit, starts, strict=False)
        self.objects = [(piece, start) for piece, start in pairs if piece.item is not None]

    def styles(self) -> list[Styles]:
        """Return the styles of each character of a translation."""
        by_character = [piece.styles for piece in self.unit for _ in piece.text]
        base = _most_common(compress(by_character, map(str.isalnum, self.source)))
        cores = [core_span(self.source, span) for span in self.words]
        of_core = [_most_common(by_character[slice(*core)]) for core in cores]
        linked = {target: word for word, target in reversed(self.links)}
        chosen = [of_core[linked[j]] if j in linked else None for j in range(len(self.found))]
        # A format of the source must not get lost, which could be a hyperlink.
        within = [dict.fromkeys(by_character[slice(*core)]) for core in cores]
        for wanted in dict.fromkeys(style for some in within for style in some):
            if wanted not in chosen and self.found:
                having = [word for word, some in enumerate(within) if wanted in some]
                position = having[len(having) // 2]
                near = min(len(self.found) - 1, position * len(self.found) // len(self.words))
                index = next((j for j, i in linked.items() if i == position), near)
                # What was chosen for a word must not get lost, either.
                free = (j for j, one in enumerate(chosen) if not one or chosen.count(one) > 1)
                index = min(free, key=lambda j: abs(j - index), default=index)
                others = chosen[index] or () if chosen.count(chosen[index]) == 1 else ()
                chosen[index] = (*wanted, *(s for s in others if s not in wanted))
        before, after = _carried(chosen), _carried(chosen[::-1])[::-1]
        result = [base] * len(self.translation)
        agreed = (a if a == b else c for a, b, c in zip(before, after, chosen, strict=True))
        of_word = [*(base if style is None else style for style in agreed), base]
        for index, (begin, end) in enumerate(self.found):
            result[begin:end] = [of_word[index]] * (end - begin)
            if index in linked:
                (first, last), core = self.words[linked[index]], cores[linked[index]]
                own_begin, own_end = core_span(self.translation, (begin, end))
                around = common(*of_word[index : index + 2])
                after_core = by_character[last - 1] if core[1] < last else around
                result[own_end:end] = [after_core] * (end - own_end)
                if first < core[0]:
                    result[begin:own_begin] = [by_character[first]] * (own_begin - begin)
                own, other = self.source[first:last], self.translation[begin:end]
                # "ß" and "ss" are of different lengths.
                is_same = own.casefold() == other.casefold() and len(own) == len(other)
                if is_same and {*of_word[index]}.issubset(chain(*by_character[first:last])):
                    result[begin:end] = by_character[first:last]
        result.append(())
        for index, character in enumerate(self.translation):
            if character.isspace() and index > 0:
                result[index] = common(result[index - 1], result[index + 1])
        return result

    def offsets(self) -> list[int]:
        """Return the offset of each object in a translation."""
        targets: dict[int, list[int]] = {}
        for word, target in self.links:
            targets.setdefault(word, []).append(target)
        line_ends = iter([match.start() for match in re.finditer("\n", self.translation)])
        offsets: list[int] = []
        for piece, position in self.objects:
            if piece.text == "\n":
                offset = next(line_ends, len(self.translation))
            elif not self.source[:position].strip():
                offset = 0
            elif not self.source[position:].strip():
                offset = len(self.translation)
            else:
                offset = self._offset(position, targets)
            offsets.append(offset)
        # Objects keep their order, and their line.
        limit = len(self.translation)
        for index in range(len(offsets) - 1, -1, -1):
            offsets[index] = min(offsets[index], limit)
            limit = offsets[index] if self.objects[index][0].text == "\n" else limit
        return list(accumulate(offsets, max))

    def _offset(self, position: int, targets: dict[int, list[int]]) -> int:
        """Return the offset of an object that has words before and after it in the source."""
        if not self.source[position - 1].isspace():  # attached to a word
            word = next(i for i, span in enumerate(self.words) if span[0] < position <= span[1])
            if word in targets:
                first, last = self.found[max(targets[word])]
                begin, end = self.words[word]
                before, after = self.source[begin:position], self.source[position:end]
                text = self.translation[first:last].casefold()
                if after and text.endswith(after.casefold()):
                    return last - len(after)
                if text.startswith(before.casefold()):
                    return first + len(before)
                is_in_word = position <= core_span(self.source, (begin, end))[1]
                return core_span(self.translation, (first, last))[1] if is_in_word else last
        following = (i for i, span in enumerate(self.words) if span[0] >= position and i in targets)
        end = core_span(self.translation, self.found[-1])[1] if self.found else 0
        return next((self.found[min(targets[i])][0] for i in following), end)


def _carried(styles: Sequence[Styles | None]) -> list[Styles | None]:
    """Replace each None by the styles before it."""

    def chosen(before: Styles | None, one: Styles | None) -> Styles | None:
        return before if one is None else one

    return list(accumulate(styles, chosen))


def common(one: Styles, other: Styles) -> Styles:
    """Return the longest common start."""
    pairs = zip(one, other, strict=False)
    return tuple(style for style, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _runs(translation: str, styles: Sequence[Styles], begin: int, end: int) -> Unit:
    """Return the pieces of a part of a translation, one for each run of equal styles."""
    characters = groupby(range(begin, end), key=lambda index: styles[index])
    return [Piece("".join(translation[i] for i in run), style) for style, run in characters]
