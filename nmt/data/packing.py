"""Packed updates: pairs of all lengths, side by side in rows of one length.

Each pair of a row is a segment, and attention stays within segments, so packing changes no result
(Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination"). All micro-batches of
a run have one shape; with stages of `corpus.mixing`, those of a stage.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from nmt.config import BatchingConfig
from nmt.data.plan import EpochPlan, MicroBatch

# Attention computes all scores of a row, masked ones too, so rows are as short as possible, but not
# shorter than this, to hold several pairs. GPUs need a multiple of eight.
_SHORTEST_ROW = 64
_NUM_SAMPLED = 32  # random updates that determine the number of rows of an update


@dataclass(frozen=True)
class PackedPlan(EpochPlan):
    """Updates are cut from the pairs of the epoch in random order.

    Micro-batches have as many rows as fit into `max_micro_batch_tokens`, but not more than one rank
    needs. The last rows of an update are empty.
    """

    pairs: np.ndarray  # indices of all pairs of the epoch, in random order
    bounds: np.ndarray  # (updates + 1,) where each update begins in `pairs`
    row_length: int  # positions of a row, on either side
    num_rows: int  # rows that hold nearly every update

    @property
    def num_updates(self) -> int:
        """Number of updates in this epoch."""
        return len(self.bounds) - 1

    @property
    def order(self) -> np.ndarray:
        """The indices of all pairs, (pairs of the epoch,), update after update."""
        return self.pairs

    def update(self, index: int) -> np.ndarray:
        """Return the indices of the pairs of an update."""
        return self.pairs[self.bounds[index] : self.bounds[index + 1]]

    def rows_per_micro_batch(self, world_size: int) -> int:
        """Return the number of rows of each micro-batch."""
        most = max(1, self.max_micro_batch_tokens // self.row_length)
        of_rank = -(-self.num_rows // world_size)
        return -(-of_rank // -(-of_rank // most))

    def micro_batches_of_ranks(self, index: int, world_size: int) -> list[dict[int, MicroBatch]]:
        """Return for each rank its micro-batches of an update, by micro-batch number.

        All ranks have the same number of them. An update that does not fit into `num_rows` has one
        more per rank.
        """
        pairs = self.update(index)
        rows = first_fit(self.source_lengths[pairs], self.target_lengths[pairs], self.row_length)
        by_row = np.argsort(rows, kind="stable")
        pairs, rows = pairs[by_row], rows[by_row]
        size = self.rows_per_micro_batch(world_size)
        num_rounds = max(1, math.ceil((int(rows[-1]) + 1) / (size * world_size)))
        starts = np.searchsorted(rows, size * np.arange(num_rounds * world_size + 1))
        shape = size, self.row_length, self.row_length

        def micro_batch(number: int) -> MicroBatch:
            own = slice(starts[number], starts[number + 1])
            return MicroBatch(pairs[own], shape, rows[own] - size * number)

        return [
            {number: micro_batch(number) for number in range(rank, len(starts) - 1, world_size)}
            for rank in range(world_size)
        ]


def plan_packed(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    config: BatchingConfig,
    shuffled: np.ndarray,
    usual: np.ndarray,
    longest: int,
    seed: int,
) -> PackedPlan:
    """Cut the pairs of an epoch, which are `shuffled`, into updates of about the same size.

    The number of rows is that of epochs with the pairs `usual`, so that epochs with similar pairs
    have the same number. `longest` is the length of the longest sentence, on either side.
    """

    def num_updates(lengths: np.ndarray) -> int:
        return max(1, round(int(lengths.sum(dtype=np.int64)) / config.target_tokens_per_update))

    number = num_updates(target_lengths[usual])
    # More pairs than needed, because their mean length differs from that of all pairs.
    size = math.ceil(1.1 * len(usual) * _NUM_SAMPLED / number)
    sample = np.random.default_rng(seed).choice(usual, size)
    tokens_per_update = target_lengths[usual].sum(dtype=np.int64) / number
    sampled_tokens = np.cumsum(target_lengths[sample], dtype=np.int64)
    ends = np.searchsorted(sampled_tokens, tokens_per_update * np.arange(_NUM_SAMPLED + 1))
    parts = [sample[first:last] for first, last in pairwise(ends)]
    length = min(config.longest, max(_SHORTEST_ROW, -(-longest // 8) * 8))
    num_rows = max(
        int(first_fit(source_lengths[part], target_lengths[part], length).max(initial=0)) + 1
        for part in parts
    )
    return PackedPlan(
        source_lengths,
        target_lengths,
        config.max_micro_batch_tokens,
        shuffled,
        _bounds(target_lengths[shuffled], num_updates(target_lengths[shuffled])),
        length,
        num_rows,
    )


def _bounds(lengths: np.ndarray, num_updates: int) -> np.ndarray:
    """Return where each update begins, and the end, (num_updates + 1,); none is empty."""
    tokens = lengths.astype(np.int64)
    before = np.cumsum(tokens) - tokens
    update = (before * float(num_updates) / float(tokens.sum())).astype(np.int64)
    return np.flatnonzero(np.diff(update, prepend=-1, append=num_updates))


def first_fit(
    source_lengths: np.ndarray, target_lengths: np.ndarray, row_length: int
) -> np.ndarray:
    """Return the row of each pair, (pairs,), by the first-fit decreasing algorithm.

    The longest pairs come first; each is put into the first row that has enough positions left on
    both sides.
    """
    lengths = np.stack((source_lengths, target_lengths), axis=1).astype(np.int64)  # (pairs, 2)
    rows = np.empty(len(lengths), dtype=np.int64)
    left = np.full((len(lengths), 2), row_length, dtype=np.int64)
    num_rows = 0
    for pair in np.argsort(-lengths.max(axis=1), kind="stable").tolist():
        row = int((left[: num_rows + 1] >= lengths[pair]).all(axis=1).argmax())
        left[row] -= lengths[pair]
        rows[pair] = row
        num_rows = max(num_rows, row + 1)
    return rows


def pack(
    sentences: Sequence[np.ndarray],
    rows: np.ndarray,
    shape: tuple[int, int],
    pad_id: int,
    before: int = -1,
    after: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Put sentences side by side into rows.

    Args:
        sentences: the ids of each sentence.
        rows: row of each sentence, ascending.
        shape: number of rows B, and their length L.
        pad_id: id of unused positions.
        before: id that is put before each sentence; -1 means none.
        after: id that is put after each sentence; -1 means none.

    Returns:
        Three (B, L) tensors, int64: ids; segments, the number of the sentence in its row, from 1,
        and 0 at padding; and positions in the sentence, 0 at padding.
    """
    first, extra = int(before >= 0), (before >= 0) + (after >= 0)
    lengths = np.array([len(ids) + extra for ids in sentences], dtype=np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    first_of_row = np.searchsorted(rows, rows)
    segment = np.arange(len(rows)) - first_of_row + 1
    offsets = rows * shape[1] + starts - starts[first_of_row]
    position = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    index = np.repeat(offsets, lengths) + position
    is_inside = (position >= first) & (position < np.repeat(lengths - (after >= 0), lengths))
    tokens = np.full(len(position), after if after >= 0 else before, dtype=np.int64)
    if len(sentences):
        tokens[is_inside] = np.concatenate(sentences)
    if before >= 0:
        tokens[starts] = before
    made = [np.full(shape[0] * shape[1], value, dtype=np.int64) for value in (pad_id, 0, 0)]
    for array, values in zip(made, (tokens, np.repeat(segment, lengths), position), strict=True):
        array[index] = values
    ids, segments, positions = (torch.from_numpy(array.reshape(shape)) for array in made)
    return ids, segments, positions
