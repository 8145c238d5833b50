"""From the plan to the batches that one process trains on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nmt.config import BatchingConfig
from nmt.data.batch import Batch, SpecialIds, collate
from nmt.data.batching import EpochPlan, plan_epoch
from nmt.data.corpus import ParallelCorpus


@dataclass(frozen=True)
class Position:
    """Where training stands in the data: the next update to make."""

    epoch: int = 0
    update_in_epoch: int = 0


@dataclass(frozen=True)
class MicroBatch:
    """One forward-backward of one process.

    Attributes:
        number: its place among the micro-batches of the update; seeds its dropout.
        batch: the padded pairs.
    """

    number: int
    batch: Batch


@dataclass(frozen=True)
class UpdateWork:
    """What one process does for one update; `micro_batches` may be empty.

    Attributes:
        epoch: the epoch, from 0.
        update_in_epoch: the update's place in its epoch, from 0.
        num_target_tokens: target tokens of the whole update, over all processes.
        num_micro_batches: micro-batches of the whole update, over all processes.
        num_rounds: most micro-batches that any process has.
        micro_batches: this process's share.
        next_position: where to continue after this update.
    """

    epoch: int
    update_in_epoch: int
    num_target_tokens: int
    num_micro_batches: int
    num_rounds: int
    micro_batches: list[MicroBatch]
    next_position: Position


class UpdateLoader:
    """Endless updates from a position on, for one of `world_size` processes.

    It holds no state that a checkpoint would need: give it the position instead.

    Attributes:
        max_micro_batch_tokens: most padded tokens of either side in a micro-batch; it may be
            lowered between two updates, which stay the same sets of pairs.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        config: BatchingConfig,
        seed: int,
        source_ids: SpecialIds,
        target_ids: SpecialIds,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._corpus = corpus
        self._config = config
        self._seed = seed
        self._source_ids = source_ids
        self._target_ids = target_ids
        self._rank = rank
        self._world_size = world_size
        self.max_micro_batch_tokens = config.max_micro_batch_tokens
        self._planned: tuple[int, EpochPlan] | None = None

    def updates(self, position: Position) -> Iterator[UpdateWork]:
        """The updates from `position` on, epoch after epoch."""
        while True:
            work = self.work(position)
            yield work
            position = work.next_position

    def work(self, position: Position) -> UpdateWork:
        """The update at a position, or the first of the next epoch where there is none."""
        epoch, index = position.epoch, position.update_in_epoch
        plan = self.plan(epoch)
        if index >= plan.num_updates:
            epoch, index = epoch + 1, 0
            plan = self.plan(epoch)
        parts = plan.micro_batches(index)
        shares = plan.shares(parts, self._world_size)
        is_last = index + 1 == plan.num_updates
        return UpdateWork(
            epoch,
            index,
            plan.num_target_tokens(index),
            len(parts),
            max(map(len, shares)),
            [MicroBatch(number, self._collate(parts[number])) for number in shares[self._rank]],
            Position(epoch + 1, 0) if is_last else Position(epoch, index + 1),
        )

    def micro_batches(self, position: Position) -> list[np.ndarray]:
        """The pairs of each micro-batch of one update, whichever process has it, by number."""
        return self.plan(position.epoch).micro_batches(position.update_in_epoch)

    def share(self, position: Position) -> list[int]:
        """The numbers of this process's micro-batches of one update."""
        parts = self.micro_batches(position)
        return self.plan(position.epoch).shares(parts, self._world_size)[self._rank]

    def num_target_tokens(self, pairs: np.ndarray) -> int:
        """Target tokens of these pairs, EOS counted."""
        return int(self._corpus.target_lengths[pairs].sum())

    def ids(self, pairs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Source and target ids of these pairs."""
        return [self._corpus.pair(int(index)) for index in pairs]

    def padded_tokens(self, position: Position) -> int:
        """Padded tokens of the longer side of the largest micro-batch of one update."""
        plan = self.plan(position.epoch)
        parts = plan.micro_batches(position.update_in_epoch)
        return max(rows * max(lengths) for rows, *lengths in map(plan.shape, parts))

    def plan(self, epoch: int) -> EpochPlan:
        """The plan of an epoch, cut into micro-batches as they are now; the last one is kept."""
        if self._planned is None or self._planned[0] != epoch:
            lengths = self._corpus.source_lengths, self._corpus.target_lengths
            self._planned = None  # two would take twice the memory
            self._planned = epoch, plan_epoch(*lengths, self._config, self._seed, epoch)
        return replace(self._planned[1], max_micro_batch_tokens=self.max_micro_batch_tokens)

    def _collate(self, pairs: np.ndarray) -> Batch:
        return collate(
            [self._corpus.pair(int(i)) for i in pairs], self._source_ids, self._target_ids
        )
