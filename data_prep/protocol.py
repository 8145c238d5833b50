"""What every source of sentence pairs offers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from data_prep.clean import Pair

TRAIN, VALID = "train", "valid"


@dataclass(frozen=True)
class Annotation:
    """What a test sentence shows, and how to see whether a translation got it right."""

    phenomena: list[str]
    """Names of what it shows: `perfect`, `relative_clause`."""
    must_contain: list[str]
    """Words or phrases that a right translation into the target language has."""
    must_not_contain: list[str]
    """Words or phrases that only a wrong one has."""
    group: str
    """Id that the sentences of a minimal pair share, or ""."""


class Source(Protocol):
    """A corpus as its owner keeps it."""

    def identity(self) -> dict[str, Any]:
        """Plain values that stand for the contents, whatever the place."""

    def splits(self) -> list[str]:
        """`train`, `valid`, then the test sets."""

    def num_pairs(self, split: str) -> int | None:
        """Pairs in a split, or None when only reading would tell."""

    def pairs(self, split: str) -> Iterator[Pair]:
        """The raw pairs of a split, in order."""

    def more_references(self, split: str) -> list[list[str]]:
        """Further references of a test set, each as long as the split; most sources have none."""

    def annotations(self, split: str) -> list[Annotation] | None:
        """One for each pair of the split, where the source has them."""


def zip_pairs(sources: Iterable[str], targets: Iterable[str]) -> Iterator[Pair]:
    """Both sides, pair by pair; they must be equally long."""
    for source, target in zip(sources, targets, strict=True):
        yield Pair(source, target)
