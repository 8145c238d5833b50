"""The memory of the duplicate rule: 8 bytes a pair, whatever the pairs hold."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from data_prep.clean import Pair


def hash_pairs(pairs: Sequence[Pair]) -> np.ndarray:
    """(pairs,) uint64; the same on every machine and in every process, unlike `hash`."""
    joined = b"".join(
        blake2b(f"{source}\n{target}".encode(), digest_size=8).digest() for source, target in pairs
    )
    return np.frombuffer(joined, dtype="<u8")


class SeenPairs:
    """Which pairs were seen before.

    Pairs are known by 64-bit hashes, kept in sorted runs that are merged when they grow alike: a
    pair costs 8 bytes (a Python set takes ten times as much), and among 40 million pairs the chance
    that any two different ones are taken for equal is one in 20,000.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def first_seen(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(pairs,) bool: True where a pair is the first of its kind, in this call and before it."""
        hashes, positions = np.unique(hash_pairs(pairs), return_index=True)
        is_new = np.ones(len(hashes), dtype=bool)
        for run in self._runs:
            found = np.searchsorted(run, hashes).clip(max=len(run) - 1)
            is_new &= run[found] != hashes
        self._remember(hashes[is_new])
        result = np.zeros(len(pairs), dtype=bool)
        result[positions[is_new]] = True
        return result

    def _remember(self, hashes: np.ndarray) -> None:
        if not len(hashes):
            return
        self._runs.append(hashes)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate((before, last)), kind="stable"))
