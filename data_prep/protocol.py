"""The interface of a source of sentence pairs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from data_prep.clean import Pair
from data_prep.skipped import Skipped

TRAIN, VALID, TEST = "train", "valid", "test"


@dataclass(frozen=True)
class Annotation:
    """Phenomena of a test sentence, and words that show whether its translation is correct.

    Attributes:
        phenomena: names of the phenomena, such as `perfect` or `relative_clause`.
        must_contain: words or phrases of every correct translation.
        must_not_contain: words or phrases of incorrect translations only.
        group: id that the sentences of a minimal pair share, or "".
    """

    phenomena: list[str]
    must_contain: list[str]
    must_not_contain: list[str]
    group: str


class Source(ABC):
    """A corpus in its original form: raw pairs by split, read one by one."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Plain values that identify the pairs, for the fingerprint."""

    @abstractmethod
    def splits(self) -> list[str]:
        """Names of the splits: `train`, `valid`, then the test sets."""

    @abstractmethod
    def num_pairs(self, split: str) -> int | None:
        """Number of pairs of a split; None if it is only known after reading them."""

    @abstractmethod
    def pairs(self, split: str) -> Iterator[Pair]:
        """The raw pairs of a split, in order."""

    def skipped(self) -> Skipped:
        """The units of the training text that could not be read, of those read so far."""
        return Skipped()

    def more_references(self, split: str) -> list[list[str]]:
        """Additional references of a test set, each with one line per pair of the split."""
        del split
        return []

    def annotations(self, split: str) -> list[Annotation] | None:
        """One annotation per pair of the split; None if the source has none."""
        del split
        return None
