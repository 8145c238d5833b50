"""From the plan to the batches that one process trains on."""

from collections.abc import Iterator
from dataclasses import dataclass

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
        micro_batches: this process's share.
        next_position: where to continue after this update.
    """

    epoch: int
    update_in_epoch: int
    num_target_tokens: int
    num_micro_batches: int
    micro_batches: list[MicroBatch]
    next_position: Position


class UpdateLoader:
    """Endless updates from a position on, for one of `world_size` processes.

    It holds no state that a checkpoint would need: give it the position instead.
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

    def updates(self, position: Position) -> Iterator[UpdateWork]:
        """The updates from `position` on, epoch after epoch."""
        epoch, first = position.epoch, position.update_in_epoch
        while True:
            plan = self._plan(epoch)
            for index in range(first, plan.num_updates):
                parts = plan.micro_batches(index)
                is_last = index + 1 == plan.num_updates
                yield UpdateWork(
                    epoch,
                    index,
                    plan.num_target_tokens(index),
                    len(parts),
                    [
                        MicroBatch(number, self._collate(parts[number]))
                        for number in range(self._rank, len(parts), self._world_size)
                    ],
                    Position(epoch + 1, 0) if is_last else Position(epoch, index + 1),
                )
            epoch, first = epoch + 1, 0

    def micro_batches(self, position: Position) -> list[np.ndarray]:
        """The pairs of each micro-batch of one update, whichever process has it, by number."""
        return self._plan(position.epoch).micro_batches(position.update_in_epoch)

    def num_target_tokens(self, pairs: np.ndarray) -> int:
        """Target tokens of these pairs, EOS counted."""
        return int(self._corpus.target_lengths[pairs].sum())

    def ids(self, pairs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Source and target ids of these pairs."""
        return [self._corpus.pair(int(index)) for index in pairs]

    def _plan(self, epoch: int) -> EpochPlan:
        return plan_epoch(
            self._corpus.source_lengths,
            self._corpus.target_lengths,
            self._config,
            self._seed,
            epoch,
        )

    def _collate(self, pairs: np.ndarray) -> Batch:
        return collate(
            [self._corpus.pair(int(i)) for i in pairs], self._source_ids, self._target_ids
        )
