"""Scores of one configuration over several seeds: their mean and standard deviation."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nmt.metrics.scores import METRIC_NAMES, format_score


@dataclass(frozen=True)
class Spread:
    """Values of one metric, one for each seed.

    `deviation` is the standard deviation (n - 1), None for a single seed.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    signature: str = ""

    @classmethod
    def of(cls, values: Iterable[float], signature: str = "") -> "Spread":
        """Compute the spread of some values."""
        scores = tuple(values)
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        return cls(scores, statistics.fmean(scores), deviation, signature)

    def format(self, metric: str) -> str:
        """Return `mean ± standard deviation`, or the mean alone for a single seed."""
        deviation = "" if self.deviation is None else f" ± {format_score(metric, self.deviation)}"
        return format_score(metric, self.mean) + deviation


def count_seeds(values: Sequence[Any]) -> str:
    """Format the number of seeds, such as `3 seeds`; `values` has one value per seed."""
    return f"{len(values)} seed{'' if len(values) == 1 else 's'}"


def all_scores(results: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Spread]:
    """Return the spread of all scores in the `result.json` of each seed, by test set and metric.

    `valid` comes first. A score that a seed lacks, or whose signatures differ, is left out.
    """
    spreads = {}
    for metric in ("bleu", "loss"):
        spreads["valid", metric] = Spread.of(result["valid"][metric] for result in results)
    for split in results[0]["test_sets"]:
        for metric in METRIC_NAMES:
            scores = [result["test_sets"].get(split, {}).get(metric) for result in results]
            signatures = {score["signature"] for score in scores if score}
            if all(scores) and len(signatures) == 1:
                spreads[split, metric] = Spread.of((one["score"] for one in scores), *signatures)
    return spreads
