"""The epoch plan: which pairs form each update of an epoch."""

import heapq
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nmt.base.errors import UserError
from nmt.config import BatchingConfig, Layout, MixingConfig
from nmt.data.mixing import Mixing
from nmt.data.packing import plan_packed
from nmt.data.plan import EpochPlan, MicroBatch

# An update consists of buckets: sets of pairs of similar length with about this many target tokens,
# or fewer if the update or the corpus is small. Large updates mix lengths: buckets are shuffled.
_MAX_BUCKET_TOKENS = 4096
# A small corpus has too few pairs of one length to fill large buckets. It is cut into about
# _MIN_BUCKETS buckets, unless a bucket would then have fewer than _MIN_BUCKET_TOKENS target tokens.
_MIN_BUCKET_TOKENS = 512
_MIN_BUCKETS = 256
# Buckets are cut from pools of random pairs; each pool is sorted by length. With more buckets per
# pool there is less padding; with more pools the buckets differ more between epochs.
_BUCKETS_PER_POOL = 2048
_MAX_POOLS = 32

_INTEGER_BITS = 63  # of a non-negative int64


@dataclass(frozen=True)
class BucketedPlan(EpochPlan):
    """Updates consist of buckets of pairs of similar length."""

    buckets: list[np.ndarray]  # indices of pairs in the corpus, an array for each bucket
    buckets_per_update: int  # consecutive buckets; the last update may have fewer
    # Time to start a micro-batch, as the number of padded tokens, of both sides, that are computed
    # in this time. If it is above 0, small micro-batches of a rank are merged.
    start_tokens: int = 0

    @property
    def num_updates(self) -> int:
        """Number of updates in this epoch."""
        return -(-len(self.buckets) // self.buckets_per_update)

    @property
    def order(self) -> np.ndarray:
        """The indices of all pairs, (pairs of the epoch,), update after update."""
        return np.concatenate(self.buckets)

    def update(self, index: int) -> np.ndarray:
        """Return the indices of the pairs of an update."""
        return np.concatenate(self._buckets_of(index))

    def micro_batches_of_ranks(self, index: int, world_size: int) -> list[dict[int, MicroBatch]]:
        """Return for each rank its micro-batches of an update, by micro-batch number.

        Each bucket is halved until its parts have at most `max_micro_batch_tokens`. The parts are
        numbered from the largest to the smallest and assigned to ranks. A micro-batch is one or
        several parts of a rank; its number is the lowest of theirs. A rank's largest micro-batch
        comes first: memory allocated for it is enough for the others. A rank may have none.
        """
        parts = [part for bucket in self._buckets_of(index) for part in self._halved(bucket)]
        parts.sort(key=lambda part: part.padded_tokens, reverse=True)
        shares = _shares([part.cost for part in parts], world_size)
        return [self._merged({number: parts[number] for number in share}) for share in shares]

    def _buckets_of(self, index: int) -> list[np.ndarray]:
        first = index * self.buckets_per_update
        return self.buckets[first : first + self.buckets_per_update]

    def _micro_batch(self, pairs: np.ndarray) -> MicroBatch:
        source, target = self.source_lengths[pairs].max(), self.target_lengths[pairs].max()
        return MicroBatch(pairs, (len(pairs), int(source), int(target)))

    def _merged(self, parts: dict[int, MicroBatch]) -> dict[int, MicroBatch]:
        """Merge parts of a rank that are neighbours in the order of lengths.

        Among the results of at most `max_micro_batch_tokens`, starts and padded tokens cost least.
        """
        if not self.start_tokens:
            return parts
        numbers = sorted(parts, key=lambda number: parts[number].shape[::-1])
        # best[n] is the least cost of the first n parts, and the index of the first part of their
        # last micro-batch.
        best = [(0, 0)]
        for end in range(1, len(numbers) + 1):
            options: list[tuple[int, int]] = []
            rows = source = target = 0
            for first in range(end - 1, -1, -1):
                more, longest_source, longest_target = parts[numbers[first]].shape
                rows += more
                source, target = max(source, longest_source), max(target, longest_target)
                if options and rows * max(source, target) > self.max_micro_batch_tokens:
                    break
                cost = best[first][0] + self.start_tokens + rows * (source + target)
                options.append((cost, first))
            best.append(min(options))
        merged: dict[int, MicroBatch] = {}
        end = len(numbers)
        while end:
            first = best[end][1]
            together = numbers[first:end]
            pairs = np.concatenate([parts[number].pairs for number in together])
            merged[min(together)] = self._micro_batch(pairs)
            end = first
        return dict(sorted(merged.items(), key=lambda item: -item[1].padded_tokens))

    def _halved(self, pairs: np.ndarray) -> list[MicroBatch]:
        part = self._micro_batch(pairs)
        if len(pairs) == 1 or part.padded_tokens <= self.max_micro_batch_tokens:
            return [part]
        middle = len(pairs) // 2
        return self._halved(pairs[:middle]) + self._halved(pairs[middle:])


def _shares(costs: list[int], world_size: int) -> list[list[int]]:
    """Return each rank's part numbers; the least busy rank gets the next largest part."""
    shares: list[list[int]] = [[] for _ in range(world_size)]
    loads = [(0, rank) for rank in range(world_size)]
    for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
        load, rank = loads[0]
        shares[rank].append(number)
        heapq.heapreplace(loads, (load + costs[number], rank))
    return [sorted(share) for share in shares]


def trainable_pairs(
    source_lengths: np.ndarray, target_lengths: np.ndarray, config: BatchingConfig
) -> np.ndarray:
    """Return the indices of the pairs within the length limits; UserError if there is none."""
    fits = (source_lengths <= config.max_source_length) & (
        target_lengths <= config.max_target_length
    )
    if not fits.any():
        raise UserError(
            f"none of the {len(fits)} training pairs fits in"
            f" batching.max_source_length={config.max_source_length} and"
            f" batching.max_target_length={config.max_target_length} tokens; raise them"
        )
    return np.flatnonzero(fits)


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    config: BatchingConfig,
    seed: int,
    epoch: int,
    mixing: Mixing | None = None,
    start_tokens: int = 0,
) -> EpochPlan:
    """Plan one epoch: every trainable pair once, or as often as `mixing` states.

    Lengths, (pairs of the corpus,), are in tokens including EOS. Epochs are counted from 0. For
    `start_tokens`, see `BucketedPlan`.

    Raises:
        UserError: no pair is within the length limits, or `mixing` cannot be fulfilled.
    """
    trainable = trainable_pairs(source_lengths, target_lengths, config)
    random = np.random.default_rng((seed, epoch))
    mixing = mixing or Mixing(MixingConfig(), {})
    shuffled = random.permutation(mixing.pairs(trainable, seed, epoch))
    if config.layout is Layout.packed:
        usual = mixing.pairs(trainable, seed, mixing.first_epoch_of_stage(epoch))
        longest = max(int(of[trainable].max()) for of in (source_lengths, target_lengths))
        return plan_packed(source_lengths, target_lengths, config, shuffled, usual, longest, seed)
    num_tokens = int(target_lengths[trainable].sum())
    largest = min(max(num_tokens // _MIN_BUCKETS, _MIN_BUCKET_TOKENS), _MAX_BUCKET_TOKENS)
    buckets_per_update = max(1, round(config.target_tokens_per_update / largest))
    bucket_tokens = config.target_tokens_per_update / buckets_per_update
    buckets = _cut_buckets(shuffled, source_lengths, target_lengths, bucket_tokens)
    return BucketedPlan(
        source_lengths,
        target_lengths,
        config.max_micro_batch_tokens,
        [buckets[number] for number in random.permutation(len(buckets))],
        buckets_per_update,
        start_tokens,
    )


def _cut_buckets(
    shuffled: np.ndarray,
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    bucket_tokens: float,
) -> list[np.ndarray]:
    """Cut pools of pairs, sorted by length, into buckets of about `bucket_tokens` target tokens."""
    num_tokens = int(target_lengths[shuffled].sum(dtype=np.int64))
    num_pools = round(num_tokens / (bucket_tokens * _BUCKETS_PER_POOL))
    num_pools = min(max(1, num_pools), _MAX_POOLS, len(shuffled))
    # Pools differ in size by at most one pair, because a small last pool would need more padding.
    bounds = [-(-pool * len(shuffled) // num_pools) for pool in range(num_pools + 1)]
    buckets: list[np.ndarray] = []
    for first, last in pairwise(bounds):
        pool = shuffled[first:last]
        by_length, tokens = _sorted_by_length(source_lengths[pool], target_lengths[pool])
        pool_tokens = tokens.sum()
        num_buckets = max(1, int(np.rint(pool_tokens / bucket_tokens)))
        tokens_before = np.cumsum(tokens) - tokens
        bucket = (tokens_before * float(num_buckets) / float(pool_tokens)).astype(np.int64)
        buckets += np.split(pool[by_length], np.flatnonzero(np.diff(bucket)) + 1)
    return buckets


def _sorted_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sort pairs by target length, then by source length, then by index.

    Source lengths ascend if the target length is even, and descend if it is odd: neighbours whose
    target lengths differ by one then also have similar source lengths. Return the indices of the
    sorted pairs, and their target lengths.
    """
    tokens, sources = target_lengths.astype(np.int64), source_lengths.astype(np.int64)
    top = 1 << int(sources.max(initial=0)).bit_length()
    sources = np.where(tokens % 2 == 0, sources, top - 1 - sources)
    # Sorting one integer that contains the index is five times faster than a stable argsort.
    index_bits, source_bits = len(tokens).bit_length(), (top - 1).bit_length()
    if int(tokens.max(initial=0)).bit_length() + source_bits + index_bits > _INTEGER_BITS:
        by_length = np.lexsort((sources, tokens))
        return by_length, tokens[by_length]
    key = ((tokens << source_bits | sources) << index_bits) | np.arange(len(tokens))
    key.sort()
    return key & ((1 << index_bits) - 1), key >> (source_bits + index_bits)
