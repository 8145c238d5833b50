"""What every epoch plan provides, whichever way it forms micro-batches.

A plan is a pure function of lengths, configuration, mixing, seed and epoch. It does not depend on
the number of ranks, so a training position is two integers: the epoch and the update.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

Shape = tuple[int, int, int]
"""Rows B, source positions S and target positions T of a micro-batch, padding included."""

_MAX_SAMPLED = 200  # largest number of updates whose work `EpochPlan.loads` computes


@dataclass(frozen=True)
class MicroBatch:
    """Pairs that are computed together."""

    pairs: np.ndarray  # indices of the pairs in the corpus
    shape: Shape
    rows: np.ndarray | None = None  # row of each pair, ascending; None: one pair per row

    @property
    def padded_tokens(self) -> int:
        """Padded tokens of the longer side."""
        rows, source, target = self.shape
        return rows * max(source, target)

    @property
    def cost(self) -> int:
        """Padded tokens of both sides; computing time is proportional to them."""
        rows, source, target = self.shape
        return rows * (source + target)


@dataclass(frozen=True)
class EpochPlan(ABC):
    """The updates of one epoch."""

    source_lengths: np.ndarray  # (pairs of the corpus,) tokens of each source, including EOS
    target_lengths: np.ndarray  # (pairs of the corpus,) tokens of each target, including EOS
    # Largest number of padded tokens of a micro-batch, on either side. It determines how an update
    # is split, but not which pairs the update has.
    max_micro_batch_tokens: int

    @property
    @abstractmethod
    def num_updates(self) -> int:
        """Number of updates in this epoch."""

    @property
    @abstractmethod
    def order(self) -> np.ndarray:
        """The indices of all pairs, (pairs of the epoch,), update after update."""

    @abstractmethod
    def update(self, index: int) -> np.ndarray:
        """Return the indices of the pairs of an update."""

    @abstractmethod
    def micro_batches_of_ranks(self, index: int, world_size: int) -> list[dict[int, MicroBatch]]:
        """Return for each rank its micro-batches of an update, by micro-batch number."""

    def num_target_tokens(self, index: int) -> int:
        """Return the number of target tokens of an update, including EOS, without padding."""
        return int(self.target_lengths[self.update(index)].sum())

    def micro_batches(self, index: int, world_size: int = 1) -> list[MicroBatch]:
        """Return the micro-batches of an update on all ranks, the largest first."""
        by_rank = self.micro_batches_of_ranks(index, world_size)
        parts = [part for of_rank in by_rank for part in of_rank.values()]
        return sorted(parts, key=lambda part: part.padded_tokens, reverse=True)

    def loads(self, world_size: int) -> np.ndarray:
        """Return the work of each rank in each update, (updates, ranks).

        The unit is padded tokens of both sides; starts of micro-batches may add to it. A long epoch
        is represented by at most `_MAX_SAMPLED` evenly spaced updates.
        """
        updates = range(0, self.num_updates, -(-self.num_updates // _MAX_SAMPLED))
        by_update = (self.micro_batches_of_ranks(index, world_size) for index in updates)
        return np.array(
            [[sum(map(self._work, own.values())) for own in ranks] for ranks in by_update]
        )

    def _work(self, part: MicroBatch) -> int:
        return part.cost

    def evenness(self, world_size: int) -> float:
        """Return (mean work of a rank) / (mean over updates of the largest work of a rank)."""
        loads = self.loads(world_size)
        return float(loads.mean() / loads.max(axis=1).mean())
