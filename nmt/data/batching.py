"""Which pairs make an update: a pure function of (lengths, config, seed, epoch).

Nothing here depends on the number of processes or on time, so a position in training is two
integers (epoch, update) and resuming is a slice.
"""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nmt.config import BatchingConfig
from nmt.errors import UserError

# An update is made of cells: pairs of like length, about this many target tokens each (one smaller
# cell when the update is smaller). Cells are drawn at random, so a large update mixes lengths.
_MAX_CELL_TOKENS = 4096
# A small corpus has smaller cells, as its few pairs of one length would not fill large ones.
_MIN_CELL_TOKENS = 512
_MIN_CELLS = 256
# Cells are cut from random pools sorted by length. The more cells a pool has the less they pad, and
# the more they differ from epoch to epoch when there are many pools.
_CELLS_PER_POOL = 2048
_MAX_POOLS = 32

_INTEGER_BITS = 63


@dataclass(frozen=True)
class EpochPlan:
    """The updates of one epoch.

    Attributes:
        source_lengths: (pairs of the corpus,) tokens of each source, EOS counted.
        target_lengths: (pairs of the corpus,) tokens of each target, EOS counted.
        order: (eligible pairs,) indices into the corpus, cell after cell.
        cell_starts: (cells + 1,): cell c is order[cell_starts[c] : cell_starts[c + 1]].
        cells_per_update: an update is so many consecutive cells; the last may have fewer.
        max_micro_batch_tokens: most padded tokens of either side in a micro-batch. It only splits
            updates: with another number they are the same.
    """

    source_lengths: np.ndarray
    target_lengths: np.ndarray
    order: np.ndarray
    cell_starts: np.ndarray
    cells_per_update: int
    max_micro_batch_tokens: int

    @property
    def num_updates(self) -> int:
        """Updates in this epoch."""
        return -(-(len(self.cell_starts) - 1) // self.cells_per_update)

    def update(self, index: int) -> np.ndarray:
        """Indices of the pairs that update `index` learns from."""
        first, last = self._cells(index)
        return self.order[self.cell_starts[first] : self.cell_starts[last]]

    def num_target_tokens(self, index: int) -> int:
        """Target tokens of update `index`, EOS counted, padding not: the divisor of its loss."""
        return int(self.target_lengths[self.update(index)].sum())

    def micro_batches(self, index: int) -> list[np.ndarray]:
        """The pairs of update `index`, cut so that each part fits the token budget.

        A part never mixes cells, whose lengths differ; a cell above the budget is halved until its
        parts fit. The largest comes first, so that later allocations fit into its memory.
        """
        first, last = self._cells(index)
        cells = [
            self.order[self.cell_starts[cell] : self.cell_starts[cell + 1]]
            for cell in range(first, last)
        ]
        parts = [part for cell in cells for part in self._halved(cell)]
        return sorted(parts, key=self._padded_tokens, reverse=True)

    def shares(self, parts: list[np.ndarray], num_processes: int) -> list[list[int]]:
        """By process, the numbers of the micro-batches of an update that it makes.

        The next largest goes to whoever has least to do; some may have nothing.
        """
        costs = [self._places(part) for part in parts]
        shares: list[list[int]] = [[] for _ in range(num_processes)]
        loads = [(0, process) for process in range(num_processes)]
        for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
            load, process = loads[0]
            shares[process].append(number)
            heapq.heapreplace(loads, (load + costs[number], process))
        return [sorted(share) for share in shares]

    def evenness(self, num_processes: int, num_updates: int = 200) -> float:
        """How busy processes are on average when the busiest one always is: 1 is an even share.

        Args:
            num_processes: that share each update.
            num_updates: looked at, spread over the epoch.
        """
        busiest, total = 0, 0
        for index in range(0, self.num_updates, -(-self.num_updates // num_updates)):
            parts = self.micro_batches(index)
            loads = [
                sum(self._places(parts[number]) for number in share)
                for share in self.shares(parts, num_processes)
            ]
            busiest, total = busiest + max(loads), total + sum(loads)
        return total / (num_processes * busiest)

    def shape(self, pairs: np.ndarray) -> tuple[int, int, int]:
        """Rows, source length and target length of a micro-batch of these pairs."""
        source, target = self.source_lengths[pairs].max(), self.target_lengths[pairs].max()
        return len(pairs), int(source), int(target)

    def _cells(self, index: int) -> tuple[int, int]:
        first = index * self.cells_per_update
        return first, min(first + self.cells_per_update, len(self.cell_starts) - 1)

    def _padded_tokens(self, pairs: np.ndarray) -> int:
        rows, source, target = self.shape(pairs)
        return rows * max(source, target)

    def _places(self, pairs: np.ndarray) -> int:
        """What a micro-batch costs, nearly: its places, padding included."""
        rows, source, target = self.shape(pairs)
        return rows * (source + target)

    def _halved(self, pairs: np.ndarray) -> list[np.ndarray]:
        if len(pairs) == 1 or self._padded_tokens(pairs) <= self.max_micro_batch_tokens:
            return [pairs]
        middle = len(pairs) // 2
        return self._halved(pairs[:middle]) + self._halved(pairs[middle:])


def eligible_pairs(
    source_lengths: np.ndarray, target_lengths: np.ndarray, config: BatchingConfig
) -> np.ndarray:
    """Indices of the pairs that are not over-long; lengths count EOS."""
    fits = (source_lengths <= config.max_source_length) & (
        target_lengths <= config.max_target_length
    )
    return np.flatnonzero(fits)


def trainable_pairs(
    source_lengths: np.ndarray, target_lengths: np.ndarray, config: BatchingConfig
) -> np.ndarray:
    """As `eligible_pairs`, to train on.

    Raises:
        UserError: there is none.
    """
    eligible = eligible_pairs(source_lengths, target_lengths, config)
    if not len(eligible):
        raise UserError(
            f"none of the {len(source_lengths)} training pairs fits in"
            f" batching.max_source_length={config.max_source_length} and"
            f" batching.max_target_length={config.max_target_length} tokens; raise them"
        )
    return eligible


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    config: BatchingConfig,
    seed: int,
    epoch: int,
) -> EpochPlan:
    """Plan one epoch: every eligible pair exactly once.

    Args:
        source_lengths: (pairs,) tokens of each source, EOS counted.
        target_lengths: (pairs,) tokens of each target, EOS counted.
        config: budgets and limits.
        seed: seed of the run.
        epoch: counted from 0.
    """
    eligible = eligible_pairs(source_lengths, target_lengths, config)
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(eligible)
    fitting = int(target_lengths[eligible].sum()) // _MIN_CELLS
    largest = min(max(fitting, _MIN_CELL_TOKENS), _MAX_CELL_TOKENS)
    cells_per_update = max(1, round(config.target_tokens_per_update / largest))
    cell_tokens = config.target_tokens_per_update / cells_per_update
    order, starts = _cut_cells(shuffled, source_lengths, target_lengths, cell_tokens)
    cells = random.permutation(len(starts) - 1)
    sizes = np.diff(starts)[cells]
    return EpochPlan(
        source_lengths,
        target_lengths,
        order[_concatenated_ranges(starts[:-1][cells], sizes)],
        np.concatenate(([0], np.cumsum(sizes))),
        cells_per_update,
        config.max_micro_batch_tokens,
    )


def _cut_cells(
    shuffled: np.ndarray,
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    cell_tokens: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Sort pools of `shuffled` by length and cut them into cells of about equal target tokens.

    Returns:
        The pairs in cell order, and the (cells + 1,) starts of the cells in it.
    """
    if not len(shuffled):
        return shuffled, np.zeros(1, dtype=np.int64)
    num_tokens = int(target_lengths[shuffled].sum(dtype=np.int64))
    num_pools = round(num_tokens / (cell_tokens * _CELLS_PER_POOL))
    num_pools = min(max(1, num_pools), _MAX_POOLS)
    # Pools hold equal numbers of pairs, so the last one is not a small and ill-sorted rest.
    bounds = [-(-pool * len(shuffled) // num_pools) for pool in range(num_pools + 1)]
    order = np.empty_like(shuffled)
    starts = []
    for first, last in pairwise(bounds):
        members = shuffled[first:last]
        by_length, tokens = _sorted_by_length(source_lengths[members], target_lengths[members])
        order[first:last] = members[by_length]
        pool_tokens = tokens.sum()
        num_cells = max(1, int(np.rint(pool_tokens / cell_tokens)))
        tokens_before = np.cumsum(tokens) - tokens
        cell = (tokens_before * float(num_cells) / float(pool_tokens)).astype(np.int64)
        starts.append(first + np.flatnonzero(np.diff(cell, prepend=-1)))
    return order, np.append(np.concatenate(starts), len(order))


def _sorted_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """By target length, then by source length, up and down in turn, then by place.

    So neighbours are alike on both sides even where the target length changes.

    Returns:
        The places in order, and the target lengths in that order.
    """
    tokens, sources = target_lengths.astype(np.int64), source_lengths.astype(np.int64)
    top = 1 << int(sources.max(initial=0)).bit_length()
    sources = np.where(tokens % 2 == 0, sources, top - 1 - sources)
    # One integer that holds the place, too, sorts five times faster than a stable argsort.
    place_bits = len(tokens).bit_length()
    source_bits = (top - 1).bit_length()
    if int(tokens.max(initial=0)).bit_length() + source_bits + place_bits > _INTEGER_BITS:
        by_length = np.lexsort((sources, tokens))
        return by_length, tokens[by_length]
    key = ((tokens << source_bits | sources) << place_bits) | np.arange(len(tokens))
    key.sort()
    return key & ((1 << place_bits) - 1), key >> (source_bits + place_bits)


def _concatenated_ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """[s0, s0 + 1, …, s0 + n0 - 1, s1, …]: many ranges as one array, without a Python loop."""
    offsets = starts - np.concatenate(([0], np.cumsum(sizes)[:-1])) if len(starts) else starts
    return np.repeat(offsets, sizes) + np.arange(int(sizes.sum()))
