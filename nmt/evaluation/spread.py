"""Scores of one configuration over several seeds: mean, spread and their table.

The 95 % interval of a mean, by Student's t over the seeds, covers only the choice of seeds. The
bootstrap interval of a single score covers only the choice of test sentences.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from nmt.base.errors import UserError
from nmt.evaluation.tables import as_text, new_table
from nmt.metrics.scores import METRIC_NAMES, column_title, format_score

# The 0.975 quantile of Student's t for 1, 2, … 10 degrees of freedom.
_T_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


@dataclass(frozen=True)
class Spread:
    """Values of one metric, one for each seed.

    `deviation` is the standard deviation (n - 1), and `ci95` half the width of the 95 % interval of
    the mean; both are None for a single seed.
    """

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    ci95: float | None
    signature: str = ""

    @classmethod
    def of(cls, values: Iterable[float], signature: str = "") -> "Spread":
        """Compute the spread of some values."""
        scores = tuple(values)
        deviation = ci95 = None
        if len(scores) > 1:
            deviation = statistics.stdev(scores)
            ci95 = student_quantile(len(scores) - 1) * deviation / math.sqrt(len(scores))
        return cls(scores, statistics.fmean(scores), deviation, ci95, signature)

    def format(self, metric: str) -> str:
        """Return `mean ± standard deviation`, or the mean alone for a single seed."""
        deviation = "" if self.deviation is None else f" ± {format_score(metric, self.deviation)}"
        return format_score(metric, self.mean) + deviation

    def format_interval(self, metric: str) -> str:
        """Return the 95 % interval of the mean, or a dash for a single seed."""
        if self.ci95 is None:
            return "–"
        low, high = self.mean - self.ci95, self.mean + self.ci95
        return f"{format_score(metric, low)} to {format_score(metric, high)}"


@dataclass(frozen=True)
class SeedsSummary:
    """Scores of one configuration over its seeds, on the validation set and on each test set.

    Attributes:
        runs: by seed, the run folder, environment, chosen weights and training time.
    """

    name: str
    seeds: tuple[int, ...]
    valid: dict[str, Spread]
    test_sets: dict[str, dict[str, Spread]]
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)

    def last_line(self) -> str:
        """Format BLEU on the first test set, or on `valid` if there is no test set."""
        split, spreads = next(iter(self.test_sets.items()), ("valid", self.valid))
        bleu, count = spreads["bleu"], count_seeds(self.seeds)
        return f"{split} BLEU {bleu.format('bleu')} ({count})  {bleu.signature}".rstrip()


def count_seeds(values: Sequence[Any]) -> str:
    """Format the number of seeds, such as `3 seeds`; `values` has one value per seed."""
    return f"{len(values)} seed{'' if len(values) == 1 else 's'}"


def student_quantile(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t distribution with `degrees` degrees of freedom."""
    if degrees <= len(_T_QUANTILES):
        return _T_QUANTILES[degrees - 1]
    # Abramowitz and Stegun 1964, 26.7.5, two terms. The error is below 0.0021 from 11 degrees on.
    return 1.95996 + 2.3723 / degrees + 2.8225 / degrees**2


def summarise(name: str, results: Mapping[int, Mapping[str, Any]]) -> SeedsSummary:
    """Summarise the `result.json` of each seed; `name` is the run name without the seed.

    A metric is left out if a run lacks it or its signatures differ; for BLEU, this is an error.
    """
    runs = list(results.values())
    test_sets: dict[str, dict[str, Spread]] = {}
    for split in dict.fromkeys(split for run in runs for split in run["test_sets"]):
        tables = [run["test_sets"].get(split, {}) for run in runs]
        spreads = {}
        for metric in METRIC_NAMES:
            scores = [table[metric] for table in tables if metric in table]
            signatures = {score["signature"] for score in scores}
            if len(scores) == len(runs) and len(signatures) == 1:
                spreads[metric] = Spread.of((score["score"] for score in scores), *signatures)
        if "bleu" not in spreads:
            raise UserError(
                f"the runs {name} have different test sets or BLEU signatures, so they cannot be"
                " averaged; train them again under another run.name"
            )
        test_sets[split] = spreads
    valid = {key: Spread.of(run["valid"][key] for run in runs) for key in ("bleu", "loss")}
    return SeedsSummary(name, tuple(results), valid, test_sets)


def seeds_table(summary: SeedsSummary) -> Table:
    """Return a table with one row per score: mean ± deviation, interval and the single values."""
    seeds = ", ".join(map(str, summary.seeds))
    table = new_table(
        f"{summary.name}, seeds {seeds} (± standard deviation; interval: Student's t)",
        *("test set", "metric", "mean ± sd", "95 % interval", "single values"),
        texts=["test set", "metric", "single values"],
    )
    for split, spreads in {"valid": summary.valid, **summary.test_sets}.items():
        for metric, spread in spreads.items():
            values = ", ".join(format_score(metric, value) for value in spread.values)
            mean, interval = spread.format(metric), spread.format_interval(metric)
            table.add_row(as_text(split), column_title(metric), mean, interval, values)
    return table
