"""One configuration, several seeds: mean, standard deviation and interval of every score.

The interval is Student's t over the seeds: where the mean of ever more seeds would come to lie. It
knows nothing of other sentences; the bootstrap interval of each single score does.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from nmt.errors import UserError
from nmt.evaluation.scores import METRIC_NAMES, column_title

_DIGITS = {"comet": 4, "loss": 4}


@dataclass(frozen=True)
class Spread:
    """One figure of several seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the seeds."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        """The sample's standard deviation (n - 1); one seed has none."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def ci95(self) -> float | None:
        """Half the width of the 95 % interval of the mean; one seed has none."""
        if self.deviation is None:
            return None
        count = len(self.values)
        return student_quantile(count - 1) * self.deviation / math.sqrt(count)

    def to_json(self) -> dict[str, Any]:
        """Mean, spread and the values themselves, in the order of the seeds."""
        spread = {"mean": self.mean, "deviation": self.deviation, "ci95": self.ci95}
        return {**spread, "values": list(self.values)}


@dataclass(frozen=True)
class SeedsSummary:
    """All scores of one configuration over its seeds.

    Attributes:
        name: of the runs, without their seeds.
        seeds: in the order in which they were asked for.
        valid: `bleu` and `loss` of the weights that were chosen.
        test_sets: by test set and metric.
        signatures: of sacrebleu, by test set and metric.
    """

    name: str
    seeds: tuple[int, ...]
    valid: dict[str, Spread]
    test_sets: dict[str, dict[str, Spread]]
    signatures: dict[str, dict[str, str]]

    def to_json(self) -> dict[str, Any]:
        """The layout of `seeds.json`, but for what is known of single runs."""
        return {
            "name": self.name,
            "seeds": list(self.seeds),
            "valid": {name: spread.to_json() for name, spread in self.valid.items()},
            "test_sets": {
                split: {
                    metric: {**spread.to_json(), "signature": self.signatures[split][metric]}
                    for metric, spread in spreads.items()
                }
                for split, spreads in self.test_sets.items()
            },
        }


def student_quantile(degrees: int) -> float:
    """The t that 95 % of Student's distribution lie within, plus and minus.

    Args:
        degrees: of freedom, 1 or more.
    """
    low, high = 1.0, 13.0  # of one degree 12.7, of infinitely many 1.96
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if _share_within(middle, degrees) < 0.95 else (low, middle)
    return high


def _share_within(t: float, degrees: int) -> float:
    """Student's probability of -t to t (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    # The powers of the cosine up to degrees - 2, odd or even as that is.
    for power in range(odd, degrees - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def summarise(name: str, results: Mapping[int, Mapping[str, Any]]) -> SeedsSummary:
    """Take the figures of completed runs together.

    Args:
        name: of the runs, without their seeds.
        results: what each run's `result.json` holds, by seed.

    Raises:
        UserError: the runs have other test sets, or were scored in different ways.
    """
    first = next(iter(results.values()))
    for result in results.values():
        if result["test_sets"].keys() != first["test_sets"].keys():
            raise UserError(
                f"the runs {name} have different test sets, so they have no mean; begin again under"
                " another run.name"
            )
    valid = {
        key: Spread(tuple(result["valid"][key] for result in results.values()))
        for key in ("bleu", "loss")
    }
    test_sets: dict[str, dict[str, Spread]] = {}
    signatures: dict[str, dict[str, str]] = {}
    for split in first["test_sets"]:
        tables = [result["test_sets"][split] for result in results.values()]
        metrics = [key for key in METRIC_NAMES if all(key in table for table in tables)]
        test_sets[split] = {
            key: Spread(tuple(table[key]["score"] for table in tables)) for key in metrics
        }
        signatures[split] = {key: _one_signature(name, split, key, tables) for key in metrics}
    return SeedsSummary(name, tuple(results), valid, test_sets, signatures)


def _one_signature(name: str, split: str, metric: str, tables: Sequence[Mapping[str, Any]]) -> str:
    found = dict.fromkeys(str(table[metric]["signature"]) for table in tables)
    if len(found) > 1:
        raise UserError(
            f"the runs {name} were scored in different ways on {split} ({' and '.join(found)}), so"
            f" their {METRIC_NAMES[metric]} has no mean; begin again under another run.name"
        )
    return next(iter(found))


def seeds_table(summary: SeedsSummary) -> Table:
    """One row a figure: mean ± standard deviation, the interval, each seed's own."""
    seeds = ", ".join(map(str, summary.seeds))
    table = Table(
        title=f"{summary.name}, seeds {seeds} (± standard deviation; interval: Student's t)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("text", overflow="fold")
    table.add_column("score", no_wrap=True)
    for name in ("mean ± sd", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"seed {seeds}", overflow="fold")
    valid_names = {"bleu": "BLEU", "loss": "loss ↓"}
    for key, spread in summary.valid.items():
        table.add_row("valid", valid_names[key], *_cells(spread, key))
    for split, spreads in summary.test_sets.items():
        for key, spread in spreads.items():
            table.add_row(split, column_title(key), *_cells(spread, key))
    return table


def _cells(spread: Spread, key: str) -> list[str]:
    digits = _DIGITS.get(key, 2)
    values = ", ".join(f"{value:.{digits}f}" for value in spread.values)
    return [in_words(spread, digits), _interval(spread, digits), values]


def in_words(spread: Spread, digits: int = 2) -> str:
    """Mean ± standard deviation; the mean alone where there is one seed."""
    if spread.deviation is None:
        return f"{spread.mean:.{digits}f}"
    return f"{spread.mean:.{digits}f} ± {spread.deviation:.{digits}f}"


def _interval(spread: Spread, digits: int) -> str:
    if spread.ci95 is None:
        return "–"
    low, high = spread.mean - spread.ci95, spread.mean + spread.ci95
    return f"{low:.{digits}f} to {high:.{digits}f}"
