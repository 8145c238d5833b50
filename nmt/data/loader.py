"""The batches of one rank."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from pydantic import NonNegativeInt

from nmt.config import BatchingConfig
from nmt.data.batch import Batch, collate
from nmt.data.batching import EpochPlan, plan_epoch
from nmt.data.corpus import ParallelCorpus
from nmt.data.mixing import Mixing
from nmt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Position:
    """Position in the training data: the next update."""

    epoch: NonNegativeInt = 0
    update_in_epoch: NonNegativeInt = 0


@dataclass(frozen=True)
class UpdateWork:
    """The part of an update that one rank computes."""

    position: Position
    num_source_tokens: int  # of the update on all ranks, without padding
    num_target_tokens: int  # of the update on all ranks, without padding
    shapes: list[tuple[int, int, int]]  # (B, S, T) of the micro-batches of all ranks
    num_rounds: int  # largest number of micro-batches of a rank
    # The micro-batches of this rank, by number (see `EpochPlan.micro_batches_of_ranks`); may be
    # empty. The seed of dropout depends on the number.
    micro_batches: dict[int, Batch]
    next_position: Position  # after this update


class UpdateLoader:
    """Makes the batches of one rank for the update at any position.

    The loader keeps no position: the caller stores `next_position`, and needs nothing else to
    continue. The attributes `max_micro_batch_tokens` and `start_tokens` (see `EpochPlan`) may be
    changed between updates; an update has the same pairs whatever their values are.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        config: BatchingConfig,
        seed: int,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        rank: int = 0,
        world_size: int = 1,
        mixing: Mixing | None = None,
        start_tokens: int = 0,
    ) -> None:
        self._corpus = corpus
        lengths = corpus.source_lengths, corpus.target_lengths
        self._plan_epoch = partial(plan_epoch, *lengths, config, seed, mixing=mixing)
        self._tokenizers = source_tokenizer, target_tokenizer
        self._rank = rank
        self._world_size = world_size
        self.start_tokens = start_tokens
        self.max_micro_batch_tokens = config.max_micro_batch_tokens
        self._planned: tuple[int, EpochPlan] | None = None

    def updates(self, position: Position) -> Iterator[UpdateWork]:
        """Yield the updates from `position`, epoch after epoch, without end."""
        while True:
            work = self.work(position)
            yield work
            position = work.next_position

    def work(self, position: Position) -> UpdateWork:
        """Return the part of the update at a position that this rank computes."""
        epoch, index = position.epoch, position.update_in_epoch
        plan = self.plan(epoch)
        by_rank = plan.micro_batches_of_ranks(index, self._world_size)
        is_last = index + 1 == plan.num_updates
        return UpdateWork(
            position,
            int(plan.source_lengths[plan.update(index)].sum()),
            plan.num_target_tokens(index),
            [plan.shape(pairs) for of_rank in by_rank for pairs in of_rank.values()],
            max(map(len, by_rank)),
            {
                number: collate(self.ids(pairs), *self._tokenizers)
                for number, pairs in by_rank[self._rank].items()
            },
            Position(epoch + 1, 0) if is_last else Position(epoch, index + 1),
        )

    def ids(self, pairs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the source and target ids of pairs, given their indices in the corpus."""
        return [self._corpus.pair(int(index)) for index in pairs]

    def padded_tokens(self, position: Position) -> int:
        """Return the padded tokens of the longer side of the largest micro-batch of an update."""
        plan = self.plan(position.epoch)
        micro_batches = plan.micro_batches(position.update_in_epoch, self._world_size)
        return plan.padded_tokens(micro_batches[0])

    def plan(self, epoch: int) -> EpochPlan:
        """Plan an epoch with the current `max_micro_batch_tokens` and `start_tokens`."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # free the old plan's memory before the next plan is made
            self._planned = epoch, self._plan_epoch(epoch=epoch)
        return replace(
            self._planned[1],
            max_micro_batch_tokens=self.max_micro_batch_tokens,
            start_tokens=self.start_tokens,
        )
