"""Which pairs of each source an epoch has.

Each epoch takes pairs of a source from an endless sequence: random orders of all its trainable
pairs. It continues where the previous epoch ended, so no pair is repeated before all were used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nmt.base.errors import UserError
from nmt.config import MixingConfig

_MAX_EPOCH_PAIRS = 100_000_000
"""Limit of the pairs of an epoch, so that its plan fits into memory. The limit is ten times the
pairs of the corpus if that is more."""


@dataclass(frozen=True)
class Mixing:
    """How the sources of a corpus are mixed."""

    config: MixingConfig
    sizes: Mapping[str, int]  # number of pairs of each source, in the order of the corpus

    def pairs(self, trainable: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """Return the indices of an epoch's pairs, source after source; epochs are counted from 0.

        A pair may occur several times. `trainable` (pairs,) contains the ascending indices of the
        pairs within the length limits.

        Raises:
            UserError: a source has a weight but no trainable pair, or the repeats are so low or
                high that an epoch has no pairs or too many.
        """
        if self.config == MixingConfig():
            return trainable
        sources = self._by_source(trainable)
        counts = np.array([len(source) for source in sources])
        first, last = self._drawn(counts, epoch), self._drawn(counts, epoch + 1)
        parts = [
            _draw(source, (seed, number), int(first[number]), int(last[number]))
            for number, source in enumerate(sources)
        ]
        return np.concatenate(parts)

    def stages(self, trainable: np.ndarray) -> dict[int, dict[str, int]]:
        """Return the number of pairs of each source in the first epoch of each stage.

        The keys are these epochs. Without stages, the only key is epoch 0.
        """
        starts = self._starts_of_stages().tolist()
        counts = np.array([len(source) for source in self._by_source(trainable)])
        numbers = [self._drawn(counts, epoch + 1) - self._drawn(counts, epoch) for epoch in starts]
        return {
            epoch: dict(zip(self.sizes, pairs.tolist(), strict=True))
            for epoch, pairs in zip(starts, numbers, strict=True)
        }

    def first_epoch_of_stage(self, epoch: int) -> int:
        """Return the first epoch of the stage of an epoch; 0 without stages."""
        starts = self._starts_of_stages()
        return int(starts[starts <= epoch].max())

    def _starts_of_stages(self) -> np.ndarray:
        return np.cumsum([0, *(stage.epochs for stage in self.config.stages[:-1])])

    def _by_source(self, trainable: np.ndarray) -> list[np.ndarray]:
        bounds = np.searchsorted(trainable, np.cumsum(list(self.sizes.values())))
        return np.split(trainable, bounds[:-1])

    def _drawn(self, counts: np.ndarray, epoch: int) -> np.ndarray:
        """Return how many pairs of each source the epochs before `epoch` use, (sources,)."""
        if not self.config.stages:
            return np.rint(epoch * self._per_epoch(counts, self.config.weights)).astype(np.int64)
        drawn, left = np.zeros(len(counts)), epoch
        for stage in self.config.stages:
            is_last = stage is self.config.stages[-1]
            epochs = left if is_last else min(left, stage.epochs)
            drawn += epochs * self._per_epoch(counts, stage.weights)
            left -= epochs
        return np.rint(drawn).astype(np.int64)

    def _per_epoch(self, counts: np.ndarray, weights: Mapping[str, float]) -> np.ndarray:
        """Return the number of pairs of each source in an epoch, (sources,), not rounded.

        `counts` has the trainable pairs of each source. With weights or a temperature, the size of
        an epoch is the sum of the counts of all sources with a share above 0.
        """
        if weights:
            shares = np.array([weights.get(name, 0.0) for name in self.sizes])
            for name, share, count in zip(self.sizes, shares, counts, strict=True):
                if share and not count:
                    raise UserError(f"corpus.mixing: {name} has no pairs to train on")
            return counts[shares > 0].sum() * shares / shares.sum()
        if self.config.temperature != 1:
            shares = counts ** (1 / self.config.temperature)
            return counts.sum() * shares / shares.sum()
        per_epoch = counts * np.array([self.config.repeats.get(name, 1.0) for name in self.sizes])
        if per_epoch.max() < 1:
            raise UserError("corpus.mixing.repeats: some epochs have no pairs; raise the repeats")
        most = max(_MAX_EPOCH_PAIRS, 10 * int(counts.sum()))
        if per_epoch.sum() > most:
            raise UserError(
                f"corpus.mixing.repeats: an epoch has {per_epoch.sum():,.0f} pairs, and at most"
                f" {most:,} are possible; lower the repeats"
            )
        return per_epoch


def _draw(pairs: np.ndarray, seed: tuple[int, int], first: int, last: int) -> np.ndarray:
    """Return elements `first` to `last - 1` of an endless sequence of random orders of `pairs`."""
    size = max(1, len(pairs))
    parts = [pairs[:0]]
    for number in range(first // size, -(-last // size)):
        order = np.random.default_rng((*seed, number)).permutation(pairs)
        parts.append(order[max(0, first - number * size) : last - number * size])
    return np.concatenate(parts)
