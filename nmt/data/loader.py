"""The batches of one rank."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from pydantic import NonNegativeInt
from torch import Tensor

from nmt.config import BatchingConfig
from nmt.data.batch import Batch, collate, collate_rows
from nmt.data.batching import plan_epoch
from nmt.data.corpus import ParallelCorpus
from nmt.data.mixing import Mixing
from nmt.data.plan import EpochPlan, MicroBatch, Shape
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
    shapes: list[Shape]  # of the micro-batches of all ranks
    num_rounds: int  # largest number of micro-batches of a rank
    # The micro-batches of this rank, by number (see `EpochPlan.micro_batches_of_ranks`); may be
    # empty. The seed of dropout depends on the number.
    micro_batches: dict[int, Batch]
    next_position: Position  # after this update


class UpdateLoader:
    """Makes the batches of one rank for the update at any position.

    The loader keeps no position: the caller stores `next_position`, and needs nothing else to
    continue. The attribute `max_micro_batch_tokens` (see `EpochPlan`) may be changed between
    updates; an update has the same pairs whatever its value is.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        config: BatchingConfig,
        seed: int,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        *,
        rank: int = 0,
        world_size: int = 1,
        mixing: Mixing | None = None,
        start_tokens: int = 0,
    ) -> None:
        self._corpus = corpus
        lengths = corpus.source_lengths, corpus.target_lengths
        self._plan_epoch = partial(
            plan_epoch, *lengths, config, seed, mixing=mixing, start_tokens=start_tokens
        )
        self._tokenizers = source_tokenizer, target_tokenizer
        self._rank = rank
        self._world_size = world_size
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
            [part.shape for of_rank in by_rank for part in of_rank.values()],
            max(map(len, by_rank)),
            {number: self._batch(part) for number, part in by_rank[self._rank].items()},
            Position(epoch + 1, 0) if is_last else Position(epoch, index + 1),
        )

    def _batch(self, part: MicroBatch) -> Batch:
        pairs = self.ids(part.pairs)
        if part.rows is None:
            return collate(pairs, *self._tokenizers)
        return collate_rows(pairs, part.rows, part.shape, *self._tokenizers)

    def ids(self, pairs: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the source and target ids of pairs, given their indices in the corpus."""
        return [self._corpus.pair(int(index)) for index in pairs]

    def padded_tokens(self, position: Position) -> int:
        """Return the padded tokens of the longer side of the largest micro-batch of an update."""
        plan = self.plan(position.epoch)
        micro_batches = plan.micro_batches(position.update_in_epoch, self._world_size)
        return micro_batches[0].padded_tokens

    def plan(self, epoch: int) -> EpochPlan:
        """Plan an epoch with the current `max_micro_batch_tokens`."""
        planned = self._planned  # another thread may replace it
        if planned is None or planned[0] != epoch:
            planned = self._planned = None  # free the old plan's memory before the next one is made
            planned = self._planned = epoch, self._plan_epoch(epoch=epoch)
        return replace(planned[1], max_micro_batch_tokens=self.max_micro_batch_tokens)


class Prefetcher:
    """Makes the work of the next update in a thread, in pinned memory, while a GPU computes."""

    def __init__(self, loader: UpdateLoader) -> None:
        self._loader = loader
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._next: Future[UpdateWork] | None = None
        self._key: tuple[Position, int] | None = None  # of `_next`

    def work(self, position: Position) -> UpdateWork:
        """Return the same as `UpdateLoader.work`."""
        tokens = self._loader.max_micro_batch_tokens
        is_next = self._next is not None and self._key == (position, tokens)
        work = self._next.result() if self._next and is_next else self._pinned(position)
        self._key = work.next_position, tokens
        self._next = self._thread.submit(self._pinned, work.next_position)
        return work

    def _pinned(self, position: Position) -> UpdateWork:
        work = self._loader.work(position)
        batches = {n: batch.mapped(Tensor.pin_memory) for n, batch in work.micro_batches.items()}
        return replace(work, micro_batches=batches)
