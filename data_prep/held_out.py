"""Hold out `valid` and a test set from the training pairs of a source that lacks them."""

from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any

import numpy as np

from data_prep.clean import Pair, normalise, score_of
from data_prep.clean_shard import SHARD_PAIRS
from data_prep.filters import clean_pair, usual_ratio
from data_prep.protocol import TEST, TRAIN, VALID, Annotation, Source
from data_prep.skipped import Skipped
from nmt.base.errors import UserError
from nmt.config import CorpusConfig

HELD_OUT_VERSION = 3
"""Part of the fingerprint: raise it whenever other pairs are held out."""

MAX_PAIRS = 2_000
MAX_SHARE = 0.05

_NUM_CANDIDATES = 20_000
"""Number of sentences whose pairs are cleaned first; more follow if too few pairs are kept."""


class HeldOutSource(Source):
    """Another source, with `valid` held out, and `test` unless the source has a test set.

    A held-out split has at most 2,000 pairs and at most 5 % of those that pass the filters, but at
    least one sentence with all its translations. A hash of the source sentence selects the pairs.
    Therefore the order of the pairs does not matter, all translations of a sentence are in the same
    split, and adding a few pairs changes little. A held-out split has a repeated pair only once.

    Args:
        source: the training pairs, and test sets if there are any; it has no `valid`.
        config: direction of the corpus, and filters that held-out pairs must pass.
        report: receives a message about the sizes of the held-out splits.
    """

    def __init__(self, source: Source, config: CorpusConfig, report: Callable[[str], None]) -> None:
        self._source = source
        self._cleaning = config.cleaning
        self._languages = config.languages
        self._report = report
        tests = [split for split in source.splits() if split != TRAIN]
        self._names = [VALID] if tests else [VALID, TEST]
        self._splits = [TRAIN, VALID, *(tests or [TEST])]

    def splits(self) -> list[str]:
        """`train`, `valid`, then the test sets."""
        return self._splits

    def identity(self) -> dict[str, Any]:
        """Identity of the source, and names of the held-out splits."""
        return self._source.identity() | {"held_out": [*self._names, HELD_OUT_VERSION]}

    def num_pairs(self, split: str) -> int | None:
        """Number of pairs of a split."""
        if split in self._names:
            return len(self._held_out[split])
        total = self._source.num_pairs(split)
        return total if total is None or split != TRAIN else total - self._num_removed

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of a split, in the order of the source; held-out splits have cleaned pairs."""
        if split in self._names:
            return iter(self._held_out[split])
        pairs = self._source.pairs(split)
        if split != TRAIN:
            return pairs
        return (pair for pair in pairs if _digest(pair) not in self._split_of)

    def skipped(self) -> Skipped:
        """The units of the training text that could not be read."""
        return self._source.skipped()

    def more_references(self, split: str) -> list[list[str]]:
        """Additional references of a test set of the source."""
        return [] if split in self._names else self._source.more_references(split)

    def annotations(self, split: str) -> list[Annotation] | None:
        """Annotations of a split of the source; None for a held-out split."""
        return None if split in self._names else self._source.annotations(split)

    @cached_property
    def _sentences(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct digests of the training pairs, ascending, and the number of pairs of each."""
        digests = np.fromiter(map(_digest, self._source.pairs(TRAIN)), dtype=np.uint64)
        return np.unique(digests, return_counts=True)

    @cached_property
    def _num_removed(self) -> int:
        """Number of training pairs of the source that are held out."""
        digests, counts = self._sentences
        removed = np.fromiter(self._split_of, dtype=np.uint64)
        return int(counts[np.isin(digests, removed)].sum())

    @cached_property
    def _held_out(self) -> dict[str, list[Pair]]:
        """The pairs of the held-out splits."""
        found: dict[str, list[Pair]] = {name: [] for name in self._names}
        for pair, digest in self._candidates[0].items():
            if name := self._split_of.get(digest):
                found[name].append(pair)
        sizes = " and ".join(f"{len(pairs):,} as {name}" for name, pairs in found.items())
        self._report(f"pairs held out from the training text: {sizes}")
        return found

    @cached_property
    def _candidates(self) -> tuple[dict[Pair, int], float]:
        """The cleaned pairs of the candidates with digests, and the candidates' share of sentences.

        Candidates are the source sentences with the smallest digests. Only their pairs are cleaned,
        because filters such as language identification take long.
        """
        digests, _ = self._sentences
        num_candidates = _NUM_CANDIDATES
        while True:
            found = self._clean_pairs(digests[:num_candidates])
            if len(found) > len(self._names) * MAX_PAIRS or num_candidates >= len(digests):
                return found, min(1, num_candidates / max(1, len(digests)))
            num_candidates *= 4

    @cached_property
    def _usual_ratio(self) -> float:
        """The usual ratio of lengths, of as many pairs as in the cleaning of the training text."""
        return usual_ratio(islice(self._source.pairs(TRAIN), SHARD_PAIRS))

    def _clean_pairs(self, digests: np.ndarray) -> dict[Pair, int]:
        """Clean the pairs with these digests; return those that pass the filters, with digests."""
        wanted = set(digests.tolist())
        # The keys of a dictionary are distinct and keep their order.
        found: dict[Pair, int] = {}
        for pair in self._source.pairs(TRAIN):
            if (digest := _digest(pair)) in wanted:
                cleaned, reasons = clean_pair(
                    *pair, self._cleaning, self._languages, score_of(pair), self._usual_ratio
                )
                if not reasons:
                    found[cleaned] = digest
        return found

    @cached_property
    def _split_of(self) -> dict[int, str]:
        """The split of each held-out source sentence, by its digest."""
        pairs, share = self._candidates
        digests = np.fromiter(pairs.values(), dtype=np.uint64)
        distinct, counts = np.unique(digests, return_counts=True)
        if len(distinct) <= len(self._names):
            raise UserError(
                f"{len(distinct)} different sentences pass the filters of corpus.cleaning:"
                f" too few to hold out {' and '.join(self._names)}; add pairs"
            )
        # Candidates are a uniform sample: about len(pairs) / share of all pairs pass the filters.
        size = min(MAX_PAIRS, int(MAX_SHARE * len(pairs) / share))
        ends, start, chosen = np.cumsum(counts), 0, dict[int, str]()
        for name in self._names:
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + size, side="right")))
            chosen |= dict.fromkeys(map(int, distinct[start:stop]), name)
            start = stop
        return chosen


def _digest(pair: Pair) -> int:
    """A 64-bit hash of the normalised source sentence."""
    return int.from_bytes(blake2b(normalise(pair.source).encode(), digest_size=8).digest(), "big")
