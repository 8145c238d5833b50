"""Constituency trees: brackets, linearised form, and labelled F1 by the rules of EVALB.

A tree is written in brackets, as in the Penn Treebank: `(S (NP (NN x)) (VP (VBZ y)))`. Its
linearised form is `(S (NP XX )NP (VP XX )VP )S` (see `nmt.metrics.linearised`).

EVALB (Sekine and Collins, with COLLINS.prm) matches constituents that have the same label and the
same words. The functions of labels are ignored (NP-SBJ is NP), ADVP and PRT are one label, and TOP
is not counted. Punctuation and traces do not belong to any constituent. Constituents that have no
other words are not counted.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from nmt.metrics.linearised import WORD

_PUNCTUATION = frozenset((",", ":", "``", "''", "."))
_UNCOUNTED_LABELS = frozenset(("", "TOP"))
_EQUAL_LABELS = {"PRT": "ADVP"}
_TRACE = "-NONE-"


class Bracket(NamedTuple):
    """A constituent over the words start … end - 1, counted from 0."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tree:
    """A sentence with its constituents, in the order in which they open.

    Attributes:
        words: the words.
        tags: part of speech of each word.
        brackets: the constituents.
    """

    words: Sequence[str]
    tags: Sequence[str]
    brackets: Sequence[Bracket]


def read_tree(text: str) -> Tree:
    """Read one tree in brackets, without functions of labels (NP-SBJ) and without traces.

    Raises:
        ValueError: the text is not one tree.
    """
    words: list[str] = []
    tags: list[str] = []
    brackets: list[Bracket] = []
    opened: list[int] = []
    # A tag and its word, an opening bracket and its label (a root may have none), a closing
    # bracket, or other text.
    pattern = r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|(\))|([^\s()]+)"
    for tag, word, label, closing, other in re.findall(pattern, text):
        if other or (not opened and (word or closing or brackets)):
            raise ValueError(f"not a tree: {text[:80]!r}")
        if word:
            words.append(word)
            tags.append(tag)
        elif closing:
            index = opened.pop()
            brackets[index] = brackets[index]._replace(end=len(words))
        else:
            opened.append(len(brackets))
            brackets.append(Bracket(_plain_label(label), len(words), -1))
    if opened or not brackets:
        raise ValueError(f"not a tree: {text[:80]!r}")
    return _without(Tree(words, tags, brackets), {_TRACE})


def linearise(tree: Tree) -> str:
    """Return the linearised form of a result of `read_tree`, in which constituents have words.

    Constituents without a label, or with the label TOP, are left out.

    Raises:
        ValueError: the remaining constituents are not one tree over all words.
    """
    symbols: list[str] = []
    opened: list[Bracket] = []
    remaining = [one for one in reversed(tree.brackets) if one.label not in _UNCOUNTED_LABELS]
    for index in range(len(tree.words) + 1):
        while opened and opened[-1].end == index:
            symbols.append(f"){opened.pop().label}")
        while remaining and remaining[-1].start == index:
            if symbols and not opened:
                raise ValueError("more than one tree")
            opened.append(remaining.pop())
            symbols.append(f"({opened[-1].label}")
        if index < len(tree.words):
            if not opened:
                raise ValueError(f"{tree.words[index]} is outside of all counted constituents")
            symbols.append(WORD)
    return " ".join(symbols)


def read_linearised(text: str, words: Sequence[str], tags: Sequence[str]) -> Tree:
    """Read the linearised form of a tree over these words.

    Raises:
        ValueError: the form is not well-formed, or has another number of words.
    """
    brackets: list[Bracket] = []
    opened: list[int] = []
    num_words = 0
    for symbol in text.split():
        if symbol == WORD and opened:
            num_words += 1
        elif symbol.startswith("(") and (opened or not brackets):
            opened.append(len(brackets))
            brackets.append(Bracket(symbol[1:], num_words, -1))
        elif opened and symbol == f"){brackets[opened[-1]].label}":
            index = opened.pop()
            brackets[index] = brackets[index]._replace(end=num_words)
        else:
            raise ValueError(f"{symbol} does not fit: {text[:80]!r}")
    if opened or num_words != len(words):
        raise ValueError(f"no tree over {len(words)} words: {text[:80]!r}")
    return Tree(words, tags, brackets)


@dataclass(frozen=True)
class BracketCounts:
    """Numbers of constituents in some sentences.

    Attributes:
        matched: constituents in both trees.
        gold: constituents in the correct trees.
        predicted: constituents in the predicted trees.
        exact: number of sentences all of whose constituents match.
        sentences: number of sentences.
    """

    matched: int = 0
    gold: int = 0
    predicted: int = 0
    exact: int = 0
    sentences: int = 0

    @property
    def precision(self) -> float:
        """Percentage of the predicted constituents that are correct."""
        return 100 * self.matched / max(1, self.predicted)

    @property
    def recall(self) -> float:
        """Percentage of the correct constituents that were predicted."""
        return 100 * self.matched / max(1, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 200 * self.matched / max(1, self.gold + self.predicted)


def count_brackets(gold: Tree, predicted: Tree) -> BracketCounts:
    """Count the constituents of one sentence; the trees have the same words and tags."""
    correct, found = (Counter(_counted(tree)) for tree in (gold, predicted))
    return BracketCounts(
        (correct & found).total(), correct.total(), found.total(), int(correct == found), 1
    )


def add_counts(counts: Iterable[BracketCounts]) -> BracketCounts:
    """Sum counts over sentences, as EVALB does before it divides."""
    rows = [(one.matched, one.gold, one.predicted, one.exact, one.sentences) for one in counts]
    return BracketCounts(*map(sum, zip(*rows, strict=True)))


def _counted(tree: Tree) -> list[Bracket]:
    return [
        one._replace(label=_EQUAL_LABELS.get(one.label, one.label))
        for one in _without(tree, _PUNCTUATION).brackets
        if one.label not in _UNCOUNTED_LABELS
    ]


def _without(tree: Tree, removed: Collection[str]) -> Tree:
    """Leave out the words with these tags, and constituents that then have no words."""
    kept = [index for index, tag in enumerate(tree.tags) if tag not in removed]
    num_kept_before = list(accumulate((tag not in removed for tag in tree.tags), initial=0))
    brackets = [
        Bracket(one.label, num_kept_before[one.start], num_kept_before[one.end])
        for one in tree.brackets
    ]
    return Tree(
        [tree.words[index] for index in kept],
        [tree.tags[index] for index in kept],
        [one for one in brackets if one.start < one.end],
    )


def _plain_label(label: str) -> str:
    """NP-SBJ-1 and NP=2 → NP; -LRB- stays."""
    return label if label.startswith("-") else re.split("[-=]", label)[0]
