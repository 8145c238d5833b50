"""Train one configuration with several seeds and summarise the scores.

The 95 % interval of a mean is Student's t over the seeds: it covers training noise only. The
bootstrap interval of a single score covers the choice of test sentences.
"""

import logging
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from nmt.base.errors import UserError
from nmt.base.files import check_writable, write_json
from nmt.base.layout import SEEDS_FOLDER
from nmt.config import Config
from nmt.evaluation.tables import as_text, new_table
from nmt.metrics.scores import METRIC_NAMES, column_title, format_score
from nmt.runs.experiment import read_environment, read_result
from nmt.training import distributed

logger = logging.getLogger(__name__)

# The 0.975 quantile of Student's t for 1, 2, … 10 degrees of freedom.
_T_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


@dataclass(frozen=True)
class Spread:
    """One score of several seeds; `deviation` and `ci95` are None for a single seed."""

    values: tuple[float, ...]
    mean: float
    deviation: float | None
    ci95: float | None
    signature: str = ""

    @classmethod
    def of(cls, values: Iterable[float], signature: str = "") -> "Spread":
        """Compute mean, standard deviation and 95 % interval of the mean of some values."""
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
    """Scores of one configuration over its seeds: of the validation set, and of each test set.

    Attributes:
        runs: of each seed, its run folder, environment, chosen weights and training time.
    """

    name: str
    seeds: tuple[int, ...]
    valid: dict[str, Spread]
    test_sets: dict[str, dict[str, Spread]]
    runs: dict[int, dict[str, Any]] = field(default_factory=dict)

    def last_line(self) -> str:
        """Return the BLEU of the first test set in one line."""
        split, spreads = next(iter(self.test_sets.items()), ("valid", self.valid))
        bleu, count = spreads["bleu"], count_seeds(self.seeds)
        return f"{split} BLEU {bleu.format('bleu')} ({count})  {bleu.signature}".rstrip()


def count_seeds(values: Sequence[Any]) -> str:
    """Return the number of values, one for each seed, as `1 seed` or `3 seeds`."""
    return f"{len(values)} seed{'' if len(values) == 1 else 's'}"


def student_quantile(degrees: int) -> float:
    """Return the 0.975 quantile of Student's t distribution."""
    if degrees <= len(_T_QUANTILES):
        return _T_QUANTILES[degrees - 1]
    # Abramowitz and Stegun 1964, 26.7.5, first order: within 0.002 from 11 on.
    return 1.95996 + 2.3723 / degrees + 2.8225 / degrees**2


def parse_seeds(text: str) -> list[int]:
    """Parse the value of `seeds=1,2,3`."""
    names = [name.strip() for name in text.split(",")]
    seeds = [int(name) for name in names if name.isascii() and name.isdigit()]
    if len(set(seeds)) < len(names):
        raise UserError(f"seeds={text}: write different non-negative integers, as in seeds=1,2,3")
    return seeds


def train_seeds(
    config: Config,
    seeds: list[int],
    train: Callable[[Config], float | None],
    report: Callable[[str], None],
) -> SeedsSummary:
    """Train every seed in its own run and write the summary of their scores.

    `train` trains one experiment unless it is complete; `report` gets a line before each seed.
    """
    has_seed = any(argument.startswith("training.seed=") for argument in sys.argv)
    if has_seed or config.run.folder or distributed.is_launched():
        raise UserError(
            "seeds= cannot be combined with training.seed=, run.folder=, --multirun or torchrun;"
            " train each seed with training.seed=N run.name=NAME_seedN, then give seeds= alone"
        )
    path = summary_path(config)
    check_writable(path)
    configs = {seed: seed_config(config, seed) for seed in seeds}
    for number, (seed, one) in enumerate(configs.items(), start=1):
        report(f"seed {seed}, {number} of {len(seeds)}: {one.run_folder}")
        try:
            train(one)
        except BaseException:
            logger.error("stopped at seed %d; the same command continues with it", seed)
            raise
    results = {seed: read_result(one.run_folder) for seed, one in configs.items()}
    summary = summarise(config.run.name, results)
    for seed, one in configs.items():
        facts = {key: results[seed][key] for key in ("chosen", "updates", "training_seconds")}
        environment = read_environment(one.run_folder)
        summary.runs[seed] = {"folder": one.run_folder.name, **environment, **facts}
    write_json(path, asdict(summary))
    return summary


def seed_config(config: Config, seed: int) -> Config:
    """Return the configuration of one seed, whose run is `<run.name>_seed<seed>`."""
    return replace(
        config,
        training=replace(config.training, seed=seed),
        run=replace(config.run, name=f"{config.run.name}_seed{seed}"),
    )


def summary_path(config: Config) -> Path:
    """Return the path of the summary: `<run.outputs>/seeds/<run.name>.json`."""
    return Path(config.run.outputs) / SEEDS_FOLDER / f"{config.run.name}.json"


def summarise(name: str, results: Mapping[int, Mapping[str, Any]]) -> SeedsSummary:
    """Combine the scores that all runs have with the same signature; `name` lacks the seed."""
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
                f"the runs {name} have different test sets or BLEU signatures, so their scores"
                " have no mean; train them again under another run.name"
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
