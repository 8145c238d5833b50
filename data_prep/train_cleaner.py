"""Clean training pairs and collect statistics and examples for the report."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from data_prep.clean import Pair, Rejection, Rule, clean_pair
from data_prep.manifest import Output
from nmt.config import CleaningConfig

_NUM_EXAMPLES = 10
_EXAMPLE_CHARACTERS = 300


@dataclass(frozen=True)
class Example:
    """A dropped or a kept pair, shortened, for the report."""

    source: str
    target: str
    detail: str = ""


@dataclass
class CleaningSummary:
    """Result of cleaning a corpus.

    Attributes:
        num_read: training pairs read.
        num_kept: training pairs kept.
        dropped: training pairs dropped, by rule.
        examples: some dropped pairs, by rule, sampled uniformly.
        samples: some kept pairs, sampled uniformly.
        words: by language, number of kept training sentences by their number of words.
        characters: characters of the kept training text, by language.
        num_pairs: pairs by split; for `train`, the kept ones with their copies.
        parts: training pairs of each part.
        outputs: size and hash of each file of the folder, by relative path.
    """

    num_read: int = 0
    num_kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: {rule.value: 0 for rule in Rule})
    examples: dict[str, list[Example]] = field(default_factory=dict)
    samples: list[Example] = field(default_factory=list)
    words: dict[str, dict[int, int]] = field(default_factory=dict)
    characters: dict[str, int] = field(default_factory=dict)
    num_pairs: dict[str, int] = field(default_factory=dict)
    parts: list[int] = field(default_factory=list)
    outputs: dict[str, Output] = field(default_factory=dict)


class _Reservoir:
    """A uniform sample of a stream of unknown length (Vitter 1985, algorithm R)."""

    def __init__(self) -> None:
        self.items: list[Example] = []
        self._num_offered = 0
        # The same text gives the same report.
        self._random = random.Random(1)

    def offer(self, source: str, target: str, detail: str = "") -> None:
        self._num_offered += 1
        index = len(self.items)
        if index < _NUM_EXAMPLES:
            self.items.append(Example("", ""))
        else:
            index = self._random.randrange(self._num_offered)
        if index < _NUM_EXAMPLES:
            texts = source[:_EXAMPLE_CHARACTERS], target[:_EXAMPLE_CHARACTERS]
            self.items[index] = Example(*texts, detail)


def hash_pairs(pairs: Sequence[Pair]) -> np.ndarray:
    """Hash pairs to uint64 values, (pairs,); unlike `hash`, equally in every process."""
    joined = b"".join(
        blake2b(f"{source}\n{target}".encode(), digest_size=8).digest() for source, target in pairs
    )
    return np.frombuffer(joined, dtype="<u8")


class SeenPairs:
    """A set of pairs that were seen before.

    Pairs are represented by 64-bit hashes in sorted arrays; arrays of similar length are merged. A
    pair takes 8 bytes, a tenth of what a Python set takes. Among 40 million different pairs, the
    probability of any collision is 1 in 20,000.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def first_seen(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Add pairs; return for each whether it was not seen before, (pairs,) bool."""
        hashes, positions = np.unique(hash_pairs(pairs), return_index=True)
        is_new = np.ones(len(hashes), dtype=bool)
        for run in self._runs:
            found = np.searchsorted(run, hashes).clip(max=len(run) - 1)
            is_new &= run[found] != hashes
        self._add(hashes[is_new])
        result = np.zeros(len(pairs), dtype=bool)
        result[positions[is_new]] = True
        return result

    def _add(self, hashes: np.ndarray) -> None:
        if not len(hashes):
            return
        self._runs.append(hashes)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate((before, last)), kind="stable"))


class TrainCleaner:
    """Applies every cleaning rule to training pairs and collects statistics.

    Args:
        config: the rules.
        languages: source and target.
    """

    def __init__(self, config: CleaningConfig, languages: tuple[str, str]) -> None:
        self._config = config
        self._languages = languages
        self._seen = SeenPairs()
        self._reservoirs = {rule: _Reservoir() for rule in Rule}
        self._samples = _Reservoir()
        self._words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._characters = [0, 0]
        self._bytes = 0
        self._dropped: Counter[Rule] = Counter()
        self._num_read = 0

    def clean(self, raw: list[Pair]) -> list[Pair]:
        """Return the normalised pairs that pass every rule."""
        self._num_read += len(raw)
        passed: list[Pair] = []
        for source, target in raw:
            result = clean_pair(source, target, self._config)
            if isinstance(result, Rejection):
                self._drop(result, source, target)
            else:
                passed.append(result)
        kept = self._without_duplicates(passed)
        for pair in kept:
            self._count(pair)
        return kept

    def _without_duplicates(self, pairs: list[Pair]) -> list[Pair]:
        if not self._config.drop_duplicates or not pairs:
            return pairs
        kept = []
        for pair, is_new in zip(pairs, self._seen.first_seen(pairs), strict=True):
            if is_new:
                kept.append(pair)
            else:
                self._drop(Rejection(Rule.duplicate, "seen before"), *pair)
        return kept

    def _drop(self, rejection: Rejection, source: str, target: str) -> None:
        self._dropped[rejection.rule] += 1
        self._reservoirs[rejection.rule].offer(source, target, rejection.detail)

    def _count(self, pair: Pair) -> None:
        self._samples.offer(*pair)
        for side, text in enumerate(pair):
            self._words[side][text.count(" ") + 1] += 1
            self._characters[side] += len(text)
            self._bytes += len(text.encode()) + 1

    def estimate_bytes(self, num_pairs: int) -> int:
        """Bytes of the kept text of `num_pairs` raw pairs, from those that were read."""
        return self._bytes * num_pairs // self._num_read

    def summary(self) -> CleaningSummary:
        """The statistics of all pairs so far."""
        return CleaningSummary(
            num_read=self._num_read,
            num_kept=self._num_read - self._dropped.total(),
            dropped={rule.value: self._dropped[rule] for rule in Rule},
            examples={rule.value: self._reservoirs[rule].items for rule in Rule},
            samples=self._samples.items,
            words={
                language: dict(sorted(counts.items()))
                for language, counts in zip(self._languages, self._words, strict=True)
            },
            characters=dict(zip(self._languages, self._characters, strict=True)),
        )
