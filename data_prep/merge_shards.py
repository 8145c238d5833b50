"""Merge the cleaned shards of a corpus: drop duplicates, write parts of text, count words."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.clean import Rule
from data_prep.clean_shard import NUM_EXAMPLES, CleanShard, Example, example, smallest
from data_prep.manifest import Output
from nmt.base.files import to_lines


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


class SeenKeys:
    """A set of 64-bit keys that were seen before.

    They are in sorted arrays; arrays of similar length are merged. A key takes 8 bytes, a tenth of
    what a Python set takes. Among 40 million different keys, the probability of any collision is
    1 in 20,000.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def first_seen(self, keys: np.ndarray) -> np.ndarray:
        """Add keys, (N,) uint64; return for each whether it was not seen before, (N,) bool."""
        distinct, positions = np.unique(keys, return_index=True)
        is_new = np.ones(len(distinct), dtype=bool)
        for run in self._runs:
            found = np.searchsorted(run, distinct).clip(max=len(run) - 1)
            is_new &= run[found] != distinct
        self._add(distinct[is_new])
        result = np.zeros(len(keys), dtype=bool)
        result[positions[is_new]] = True
        return result

    def _add(self, keys: np.ndarray) -> None:
        if not len(keys):
            return
        self._runs.append(keys)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate((before, last)), kind="stable"))


class ShardMerger:
    """Drops the duplicates of shards, which are added in order, and collects statistics.

    Args:
        drop_duplicates: keep only the first of equal pairs.
        languages: source and target.
    """

    def __init__(self, drop_duplicates: bool, languages: tuple[str, str]) -> None:
        self._seen = SeenKeys() if drop_duplicates else None
        self._languages = languages
        self._num_read = self._num_bytes = 0
        self._dropped: Counter[str] = Counter()
        self._examples: dict[str, list[tuple[int, Example]]] = {rule.value: [] for rule in Rule}
        self._samples: list[tuple[int, Example]] = []
        self._words = {language: np.zeros(0, dtype=np.int64) for language in languages}
        self._characters: Counter[str] = Counter()

    def add(self, shard: CleanShard) -> pa.Table:
        """Add the next shard; return the pairs to keep, columns `source`, `target` and `key`."""
        statistics = shard.statistics
        self._num_read += statistics.num_read
        self._dropped.update(statistics.dropped)
        for rule, found in statistics.examples.items():
            self._add_examples(rule, found)
        kept = shard.table
        if self._seen is not None:
            is_new = self._seen.first_seen(shard.keys)
            kept = shard.table.filter(pa.array(is_new))
            repeated = shard.table.filter(pa.array(~is_new))
            self._dropped[Rule.duplicate.value] += len(repeated)
            self._add_examples(Rule.duplicate.value, _sample(repeated, "seen before"))
        self._samples = smallest(self._samples + _sample(kept))
        for language, name in zip(self._languages, ("source", "target"), strict=True):
            self._count(language, kept[name])
        return kept

    def _add_examples(self, rule: str, found: list[tuple[int, Example]]) -> None:
        self._examples[rule] = smallest(self._examples[rule] + found)

    def _count(self, language: str, texts: pa.ChunkedArray) -> None:
        # Normalised words are separated by one space.
        words = np.bincount(pc.count_substring(texts, " ").to_numpy() + 1)
        total = np.zeros(max(len(words), len(self._words[language])), dtype=np.int64)
        for counts in (words, self._words[language]):
            total[: len(counts)] += counts
        self._words[language] = total
        self._characters[language] += pc.sum(pc.utf8_length(texts)).as_py() or 0
        self._num_bytes += (pc.sum(pc.binary_length(texts)).as_py() or 0) + len(texts)

    def estimate_bytes(self, num_pairs: int) -> int:
        """Bytes of the kept text of `num_pairs` raw pairs, from those that were read."""
        return self._num_bytes * num_pairs // max(1, self._num_read)

    def summary(self) -> CleaningSummary:
        """The statistics of all shards so far."""
        return CleaningSummary(
            num_read=self._num_read,
            num_kept=self._num_read - self._dropped.total(),
            dropped={rule.value: self._dropped[rule.value] for rule in Rule},
            examples={rule: _texts(found) for rule, found in self._examples.items()},
            samples=_texts(self._samples),
            words={
                language: {int(length): int(counts[length]) for length in np.flatnonzero(counts)}
                for language, counts in self._words.items()
            },
            characters=dict(self._characters),
        )


def _sample(table: pa.Table, detail: str = "") -> list[tuple[int, Example]]:
    """Return the pairs with the smallest keys."""
    order = np.argsort(table["key"].to_numpy(), kind="stable")[:NUM_EXAMPLES]
    rows = table.take(pa.array(order)).to_pylist()
    return [(row["key"], example((row["source"], row["target"]), detail)) for row in rows]


def _texts(examples: list[tuple[int, Example]]) -> list[Example]:
    return [one for _, one in examples]


class PartWriter:
    """Appends pairs to numbered parts of at most `pairs_per_part` pairs.

    Args:
        paths: returns the files of source and target of a part.
        pairs_per_part: pairs of each part but the last.
    """

    def __init__(self, paths: Callable[[int], list[Path]], pairs_per_part: int) -> None:
        self._paths = paths
        self._pairs_per_part = pairs_per_part
        self.parts: list[int] = []

    def write(self, pairs: pa.Table) -> None:
        """Write pairs; the files are closed afterwards, so that disk errors are raised here."""
        start = 0
        while start < len(pairs):
            if not self.parts or self.parts[-1] == self._pairs_per_part:
                self.parts.append(0)
            added = pairs.slice(start, self._pairs_per_part - self.parts[-1])
            for path, name in zip(
                self._paths(len(self.parts) - 1), pairs.schema.names, strict=False
            ):
                _append(path, added[name].to_pylist())
            self.parts[-1] += len(added)
            start += len(added)


def _append(path: Path, lines: list[str]) -> None:
    with path.open("a", encoding="utf-8", newline="\n") as out:
        out.write(to_lines(lines))
