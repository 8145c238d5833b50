"""Merge the cleaned shards of a corpus, in order, with the filters that compare all pairs."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.clean import Pair
from data_prep.clean_shard import (
    NUM_EXAMPLES,
    CleanShard,
    Keyed,
    example,
    side_key,
    smallest,
)
from data_prep.ledger import (
    KEPT,
    RATIO_BINS_PER_DOUBLING,
    Amount,
    CleaningSummary,
    Example,
    SourceLedger,
)
from nmt.base.files import append_text, to_lines
from nmt.base.languages import num_words
from nmt.config import CleaningConfig

_NUM_ODDEST = 10

_TEST_MIN_WORDS = 5
"""Sentences of test sets with fewer words, such as "Yes, thank you.", stay in the training text."""


class SeenKeys:
    """A set of 64-bit keys that were seen before.

    The keys are in sorted arrays; arrays of similar length are merged. A key takes 8 bytes, a tenth
    of its size in a Python set. Among 40 million different texts, the probability that any two have
    the same key is 1 in 23,000.
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
    """Filters the pairs of shards, which must be added in order, and collects statistics.

    Args:
        config: the filters.
        languages: source and target.
        tests: sources and targets of `valid` and the test sets, normalised.
    """

    def __init__(
        self, config: CleaningConfig, languages: tuple[str, str], tests: tuple[list[str], list[str]]
    ) -> None:
        self._languages = languages
        self._seen = {
            name: (column, SeenKeys())
            for name, column, is_used in (
                ("duplicate", "key", config.drop_duplicates),
                ("near_duplicate", "near", config.drop_near_duplicates),
                ("duplicate_source", "source_key", config.drop_duplicate_sides),
                ("duplicate_target", "target_key", config.drop_duplicate_sides),
            )
            if is_used
        }
        key = side_key(config)
        self._tests = (
            [_sentence_keys(side, key) for side in tests] if config.drop_test_sentences else []
        )
        self._ledger: dict[str, SourceLedger] = {}
        self._num_bytes = 0
        self._examples: dict[tuple[str, str], list[Keyed]] = {}  # by source and filter
        self._oddest: list[Keyed] = []
        self._words = {language: np.zeros(0, dtype=np.int64) for language in languages}
        self._characters = dict.fromkeys(languages, 0)
        self._ratios: Counter[int] = Counter()

    def add(self, shard: CleanShard, source: str) -> pa.Table:
        """Add the next shard, whose pairs are from one source; return the pairs to keep."""
        ledger = self._ledger.setdefault(source, SourceLedger())
        ledger.read.add(shard.statistics.read)
        for combination, amount in shard.statistics.dropped.items():
            ledger.drop(combination, amount)
        for name, found in shard.statistics.examples.items():
            self._add_examples(source, name, found)
        kept = shard.table
        if self._tests:
            columns = (kept[name].to_numpy() for name in ("source_key", "target_key"))
            sides = [np.isin(keys, known) for keys, known in zip(columns, self._tests, strict=True)]
            kept = self._keep(kept, ~(sides[0] | sides[1]), "test_sentence", source)
        for name, (column, seen) in self._seen.items():
            kept = self._keep(kept, seen.first_seen(kept[column].to_numpy()), name, source)
        ledger.kept.add(_amount(kept))
        self._add_examples(source, KEPT, _sample(kept))
        self._add_ratios(kept)
        for language, name in zip(self._languages, Pair._fields, strict=True):
            self._count(language, kept[name], kept[f"{name}_words"])
        return kept

    def _keep(self, pairs: pa.Table, is_kept: np.ndarray, name: str, source: str) -> pa.Table:
        """Return the pairs that a filter keeps; add the others to the ledger of the source."""
        dropped = pairs.filter(pa.array(~is_kept))
        if len(dropped):
            self._ledger[source].drop(name, _amount(dropped))
            self._add_examples(source, name, _sample(dropped))
        return pairs.filter(pa.array(is_kept))

    def _add_examples(self, source: str, name: str, found: list[Keyed]) -> None:
        before = self._examples.get((source, name), [])
        self._examples[source, name] = smallest(before + found)

    def _add_ratios(self, pairs: pa.Table) -> None:
        """Count the ratios of lengths, and store the pairs with the most unusual ratios."""
        if not len(pairs):
            return
        source, target = (pc.utf8_length(pairs[name]).to_numpy() for name in Pair._fields)
        ratios = np.log(source / target)
        bins = np.rint(RATIO_BINS_PER_DOUBLING * np.log2(target / source)).astype(int)
        self._ratios.update(bins.tolist())
        # The distance from the median is weighted by length: ratios of short pairs vary by chance.
        oddness = np.abs(ratios - np.median(ratios)) * np.sqrt(np.minimum(source, target))
        for index in np.argsort(-oddness, kind="stable")[:_NUM_ODDEST].tolist():
            texts = pairs["source"][index].as_py(), pairs["target"][index].as_py()
            detail = f"{source[index]} against {target[index]} characters"
            self._oddest.append((int(-1e6 * oddness[index]), example(texts, detail)))
        self._oddest = smallest(self._oddest)[:_NUM_ODDEST]

    def _count(self, language: str, texts: pa.ChunkedArray, numbers: pa.ChunkedArray) -> None:
        words = np.bincount(numbers.to_numpy())
        total = np.zeros(max(len(words), len(self._words[language])), dtype=np.int64)
        for counts in (words, self._words[language]):
            total[: len(counts)] += counts
        self._words[language] = total
        self._characters[language] += pc.sum(pc.utf8_length(texts)).as_py() or 0
        self._num_bytes += (pc.sum(pc.binary_length(texts)).as_py() or 0) + len(texts)

    def estimate_bytes(self, num_pairs: int) -> int:
        """Estimate the bytes of text kept of `num_pairs` raw pairs, from the shards so far."""
        num_read = sum(source.read.pairs for source in self._ledger.values())
        return self._num_bytes * num_pairs // max(1, num_read)

    def summary(self) -> CleaningSummary:
        """The statistics of all shards so far."""
        for (source, name), found in self._examples.items():
            self._ledger[source].examples[name] = _without_keys(found)
        return CleaningSummary(
            ledger=self._ledger,
            oddest=_without_keys(self._oddest),
            words={
                language: {int(length): int(counts[length]) for length in np.flatnonzero(counts)}
                for language, counts in self._words.items()
            },
            characters=dict(self._characters),
            ratios=dict(sorted(self._ratios.items())),
        )


def _amount(pairs: pa.Table) -> Amount:
    return Amount(len(pairs), pc.sum(pairs["source_words"]).as_py() or 0)


def _sentence_keys(sentences: Iterable[str], key: Callable[[str], int]) -> np.ndarray:
    keys = {key(text) for text in sentences if num_words(text) >= _TEST_MIN_WORDS}
    return np.array(sorted(keys), dtype=np.uint64)


def _sample(pairs: pa.Table) -> list[Keyed]:
    """Return the NUM_EXAMPLES pairs with the smallest keys."""
    order = np.argsort(pairs["key"].to_numpy(), kind="stable")[:NUM_EXAMPLES]
    rows = pairs.take(pa.array(order)).to_pylist()
    return [(row["key"], example((row["source"], row["target"]))) for row in rows]


def _without_keys(examples: list[Keyed]) -> list[Example]:
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
            paths = self._paths(len(self.parts) - 1)
            for path, name in zip(paths, Pair._fields, strict=True):
                append_text(path, to_lines(added[name].to_pylist()))
            self.parts[-1] += len(added)
            start += len(added)
