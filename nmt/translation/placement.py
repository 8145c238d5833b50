"""Placement of protected spans in a translation, by word alignment.

Pairs of tags stay nested: each encloses one run of words, the one that agrees best with the
alignment, and never none. Everything else stands beside the translation of its neighbour.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from nmt.translation.request import Links
from nmt.translation.spans import Mark

_Run = tuple[int, int]  # first and last word
_UNKNOWN = (-1, -1)

# Pairs of tags inside more pairs enclose what the pair around them does: the time stays linear.
_MOST_DEPTH = 16


@dataclass(eq=False)
class _Pair:
    """A pair of tags.

    Attributes:
        opening: its opening tag; None for the root, which encloses the whole text.
        depth: number of pairs around it.
        pairs: the pairs inside.
        singles: the marks inside that belong to no pair.
        closing: its closing tag.
        words: the words of the translation that it encloses.
    """

    opening: Mark | None = None
    depth: int = 0
    pairs: "list[_Pair]" = field(default_factory=list)
    singles: list[Mark] = field(default_factory=list)
    closing: Mark | None = None
    words: _Run = _UNKNOWN


@dataclass(frozen=True)
class _Insertion:
    """A text beside a word of the translation.

    Attributes:
        text: the text with the spaces that separate it from words.
        word: index of the word.
        is_after: whether it stands after the word, not before it.
        is_inner: whether it stands between the word and the punctuation of the word.
        joins: whether there is no white space before it.
    """

    text: str
    word: int
    is_after: bool
    is_inner: bool
    joins: bool = False


def insert_marks(source: str, translation: str, marks: Sequence[Mark], links: Links | None) -> str:
    """Insert the marks of a source into its translation.

    Args:
        source: the source without spans.
        translation: its translation, without spans.
        marks: what `without_spans` removed, in the order of the source.
        links: pairs of a source word and a target word; None takes words at the same relative
            place.
    """
    if not translation.strip():
        return "".join(mark.text for mark in marks)
    return _Placement(source, translation, links).text(_tree(marks))


def _tree(marks: Sequence[Mark]) -> _Pair:
    opened = [_Pair()]
    for mark in marks:
        if mark.kind == "opening":
            pair = _Pair(mark, len(opened))
            opened[-1].pairs.append(pair)
            opened.append(pair)
        elif mark.kind == "closing":
            opened.pop().closing = mark
        else:
            opened[-1].singles.append(mark)
    return opened[0]


class _Placement:
    """A source, its translation and the links between their words; see `insert_marks`."""

    def __init__(self, source: str, translation: str, links: Links | None) -> None:
        self._source, self._translation = source, translation
        words = _word_spans(source)
        self._begins, self._ends = ([word[side] for word in words] for side in (0, 1))
        self._found = _word_spans(translation)
        num_found = len(self._found)
        if links is None:
            links = [(j * len(words) // num_found, j) for j in range(num_found) if words]
        # The words of the translation that each source word is linked to, ascending.
        self._targets: list[list[int]] = [[] for _ in words]
        for word, target in sorted(links):
            self._targets[word].append(target)
        self._linked = [word for word, targets in enumerate(self._targets) if targets]
        linked = {target for _, target in links}
        # Numbers of linked words before each word of the translation.
        self._num_linked = [0, *accumulate(target in linked for target in range(num_found))]

    def text(self, root: _Pair) -> str:
        """Return the translation with marks."""
        before: list[list[_Insertion]] = [[] for _ in self._found]
        after: list[list[_Insertion]] = [[] for _ in self._found]
        root.words = (0, len(self._found) - 1)
        stack: list[_Pair | _Insertion] = [root]
        while stack:
            item = stack.pop()
            if isinstance(item, _Insertion):
                (after if item.is_after else before)[item.word].append(item)
            else:
                stack += reversed(list(self._contents(item)))
        return "".join(self._parts(before, after))

    def _contents(self, pair: _Pair) -> Iterator[_Pair | _Insertion]:
        """Yield the tags of a pair and what is between them, in the order of the translation."""
        first, last = pair.words
        if pair.opening:
            offset = pair.opening.offset
            is_inner = self._source[offset : offset + 1].isalnum()
            yield _Insertion(pair.opening.text, first, False, is_inner)
        items: list[tuple[tuple[int, int], _Pair | _Insertion]] = []
        for mark in pair.singles:
            one = self._beside_a_word(mark, pair.words)
            items.append(((one.word, 2 * one.is_after), one))
        items += [((inner.words[0], 1), inner) for inner in self._arranged(pair)]
        yield from (item for _, item in sorted(items, key=lambda item: item[0]))
        if pair.closing:
            offset = pair.closing.offset
            is_inner = self._source[max(0, offset - 1) : offset].isalnum()
            yield _Insertion(pair.closing.text, last, True, is_inner)

    def _arranged(self, pair: _Pair) -> list[_Pair]:
        """Choose the words of the pairs inside a pair; those that overlap become nested."""
        for inner in pair.pairs:
            if inner.words == _UNKNOWN:
                inner.words = self._enclosed(inner, pair.words)
        arranged: list[_Pair] = []
        opened: list[tuple[int, _Pair]] = []  # the last word, and the pair
        for inner in sorted(pair.pairs, key=lambda one: (one.words[0], -one.words[1])):
            first, last = inner.words
            while opened and opened[-1][0] < first:
                opened.pop()
            if opened:
                last = min(last, opened[-1][0])
                inner.words = (first, last)
                opened[-1][1].pairs.append(inner)
            else:
                arranged.append(inner)
            opened.append((last, inner))
        return arranged

    def _enclosed(self, pair: _Pair, within: _Run) -> _Run:
        """Return the run of words that agrees best with the links of a pair.

        Each word linked to the inside counts for a run, and each other linked word against it.
        """
        assert pair.opening
        assert pair.closing
        if pair.depth > _MOST_DEPTH:
            return within
        first = bisect_right(self._ends, pair.opening.offset)
        end = bisect_left(self._begins, pair.closing.offset)
        low, high = within
        targets = sorted(
            target
            for word in range(first, end)
            for target in self._targets[word]
            if low <= target <= high
        )
        if not targets:
            near = self._nearest(first)
            return (min(max(near, low), high),) * 2
        best, run = 0, (low, low)
        start, lowest = low, len(self._num_linked)  # of the best run that ends here
        for index, target in enumerate(targets):
            outside = 2 * index - self._num_linked[target]
            if outside < lowest:
                start, lowest = target, outside
            value = 2 * (index + 1) - self._num_linked[target + 1] - lowest
            if value > best:
                best, run = value, (start, target)
        return run

    def _nearest(self, word: int) -> int:
        """Return the word of the translation for a source word that is linked to none."""
        index = bisect_left(self._linked, word)
        near = self._linked[max(0, index - 1) : index + 1]
        if not near:
            return word * len(self._found) // max(1, len(self._begins))
        return self._targets[min(near, key=lambda one: abs(one - word))][0]

    def _beside_a_word(self, mark: Mark, within: _Run) -> _Insertion:
        """Place a mark before the translation of the next word, or after that of the last one."""
        last = bisect_left(self._begins, mark.offset) - 1  # source word before the mark
        is_inner = last >= 0 and self._ends[last] > mark.offset
        joins_left, joins_right = mark.is_attached
        if is_inner:
            word, is_after = last, not self._source[mark.offset].isalnum()
        elif last + 1 == len(self._begins):
            return self._insertion(mark, within[1], True, is_inner)
        else:
            is_after = last >= 0 and joins_left and not joins_right
            is_after |= last >= 0 and not self._targets[last + 1] and bool(self._targets[last])
            word = last + (not is_after)
        targets = self._targets[word]
        target = targets[-is_after] if targets else self._nearest(word)
        if not within[0] <= target <= within[1]:
            is_after = target > within[1]
            target = within[is_after]
        joins = not is_after and joins_left and target - 1 in self._targets[max(0, last)]
        return self._insertion(mark, target, is_after, is_inner, joins)

    def _insertion(
        self, mark: Mark, word: int, is_after: bool, is_inner: bool, joins: bool = False
    ) -> _Insertion:
        joins_left, joins_right = mark.is_attached
        before = " " * (is_after and not joins_left)
        behind = " " * (not is_after and not joins_right)
        return _Insertion(before + mark.text + behind, word, is_after, is_inner, joins)

    def _parts(
        self, before: list[list[_Insertion]], after: list[list[_Insertion]]
    ) -> Iterator[str]:
        """Yield the words of the translation, the white space between, and all insertions."""
        end = 0
        for (begin, next_end), first, last in zip(self._found, before, after, strict=True):
            yield "" if any(one.joins for one in first) else self._translation[end:begin]
            word, end = self._translation[begin:next_end], next_end
            core = re.search(r"\w(?:.*\w)?", word)
            core_begin, core_end = core.span() if core else (0, len(word))
            # What is inside of a pair of tags stays inside.
            outer = next((i for i, one in enumerate(first) if one.is_inner), len(first))
            inner = next((i for i, one in enumerate(last) if not one.is_inner), len(last))
            yield from (one.text for one in first[:outer])
            yield word[:core_begin]
            yield from (one.text for one in first[outer:])
            yield word[core_begin:core_end]
            yield from (one.text for one in last[:inner])
            yield word[core_end:]
            yield from (one.text for one in last[inner:])
        yield self._translation[end:]


def _word_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]
