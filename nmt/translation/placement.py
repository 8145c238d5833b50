"""Placement of protected spans in a translation, by word alignment.

Pairs of tags stay nested. Each encloses at least one word: the run that agrees best with the
alignment. Everything else stands beside the translation of its neighbour.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nmt.translation.request import core_span, word_spans
from nmt.translation.spans import Mark, protected_spans

_Run = tuple[int, int]  # first and last word
_UNKNOWN = (-1, -1)

Weights = NDArray[np.float32]

# Deeper pairs enclose the same words as the pair around them, so that the time stays linear.
_MOST_DEPTH = 16
_SMALLEST = 1e-9  # sum of weights


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
        joins: whether to drop the white space of the translation before it.
    """

    text: str
    word: int
    is_after: bool
    is_inner: bool
    joins: bool = False


_Beside = tuple[list[_Insertion], list[_Insertion]]  # before a word, and after it


def insert_marks(
    source: str, translation: str, marks: Sequence[Mark], weights: Weights | None, first: int = 0
) -> str:
    """Insert the marks of a source into its translation.

    Args:
        source: the source without spans.
        translation: its translation, without spans.
        marks: what `without_spans` removed, in the order of the source.
        weights: how much each word of the translation attends to each source word; None takes
            words at the same relative place.
        first: number of words of the translation that stay before all marks.
    """
    if not translation.strip():
        return "".join(mark.text for mark in marks)
    placement = _Placement(source, translation, weights)
    text = placement.text(_tree(marks), first)
    wanted = Counter(protected_spans(" ".join([translation, *(mark.text for mark in marks)])))
    if Counter(protected_spans(text)) == wanted:
        return text
    # A span has become another one beside a word, as @name in dog@name.
    apart = [replace(mark, is_attached=(False, False)) for mark in marks]
    return placement.text(_tree(apart), first)


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
    """A source, its translation and the weights between their words; see `insert_marks`."""

    def __init__(self, source: str, translation: str, weights: Weights | None) -> None:
        self._source, self._translation = source, translation
        words = word_spans(source)
        self._begins, self._ends = ([word[side] for word in words] for side in (0, 1))
        self._found = word_spans(translation)
        self._weights: Weights | None = None
        self._best = [i * len(self._found) // len(words) for i in range(len(words))]
        if weights is not None:
            # Rows add up to 1, so that each word of the translation counts the same. Words without
            # pieces have no weights.
            own = np.zeros((len(self._found), len(words)), dtype=np.float32)
            own[: len(weights), : weights.shape[1]] = weights
            own /= np.maximum(own.sum(1, keepdims=True), _SMALLEST)
            self._weights, self._best = own, own.argmax(0).tolist()

    def text(self, root: _Pair, first: int) -> str:
        """Return the translation with marks after its first words."""
        beside: list[_Beside] = [([], []) for _ in self._found]
        last = len(self._found) - 1
        root.words = (min(first, last), last)
        stack: list[_Pair | _Insertion] = [root]
        while stack:
            item = stack.pop()
            if isinstance(item, _Insertion):
                beside[item.word][item.is_after].append(item)
            else:
                stack += reversed(list(self._contents(item)))
        return "".join(self._parts(beside))

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
        """Return the run of words that attend most to the inside of a pair, and least outside."""
        assert pair.opening
        assert pair.closing
        first = bisect_right(self._ends, pair.opening.offset)
        end = max(bisect_left(self._begins, pair.closing.offset), first + 1)
        low, high = within
        if pair.depth > _MOST_DEPTH:
            return within
        if self._weights is None:
            start, after = (one * len(self._found) // len(self._begins) for one in (first, end))
            start = min(max(start, low), high)
            return start, min(max(start, after - 1), high)
        weights = self._weights[low : high + 1]
        sums = np.cumsum(2 * weights[:, first:end].sum(1) - weights.sum(1))
        before = np.concatenate([[0], sums[:-1]])
        last = int(np.argmax(sums - np.minimum.accumulate(before)))
        return low + int(np.argmin(before[: last + 1])), low + last

    def _beside_a_word(self, mark: Mark, within: _Run) -> _Insertion:
        """Place a mark before the translation of the next word, or after that of the last one.

        A mark attached to the word before it only stands after the translation of that word.
        """
        last = bisect_left(self._begins, mark.offset) - 1  # source word before the mark
        is_inner = last >= 0 and self._ends[last] > mark.offset
        joins_left, joins_right = mark.is_attached
        if is_inner:
            is_after = not self._source[mark.offset].isalnum()
            target = self._best[last]
        elif last + 1 == len(self._begins):
            is_after, target = True, within[1]
        else:
            is_after = last >= 0 and joins_left and not joins_right
            target = self._best[last + (not is_after)]
        if not within[0] <= target <= within[1]:
            is_after, is_inner = target > within[1], False
            target = within[is_after]
            joins_left = joins_right = False
        joins = not is_after and joins_left and target == self._best[max(0, last)] + 1
        before = " " * (is_after and not joins_left)
        behind = " " * (not is_after and not joins_right)
        return _Insertion(before + mark.text + behind, target, is_after, is_inner, joins)

    def _parts(self, beside: Sequence[_Beside]) -> Iterator[str]:
        """Yield the words of the translation, the white space between, and all insertions."""
        text, last_end = self._translation, 0
        for (begin, end), (first, last) in zip(self._found, beside, strict=True):
            yield "" if any(one.joins for one in first) else text[last_end:begin]
            core_begin, core_end = core_span(text, (begin, end))
            # What is inside of a pair of tags stays inside.
            outer = next((i for i, one in enumerate(first) if one.is_inner), len(first))
            inner = next((i for i, one in enumerate(last) if not one.is_inner), len(last))
            yield from (one.text for one in first[:outer])
            yield text[begin:core_begin]
            yield from (one.text for one in first[outer:])
            yield text[core_begin:core_end]
            yield from (one.text for one in last[:inner])
            yield text[core_end:end]
            yield from (one.text for one in last[inner:])
            last_end = end
        yield text[last_end:]
