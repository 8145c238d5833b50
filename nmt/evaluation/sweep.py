"""A sweep: its runs grouped over seeds, mean scores, and significance of the differences.

Runs form a group if they differ only in the seed and in keys that change a result no more than the
seed does. The best group has the highest mean BLEU on validation; test scores are not considered.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, one_line
from nmt.base.layout import VALID_HYPOTHESES_FILE
from nmt.config import RANDOM_KEYS, ROW_KEY, is_free_key
from nmt.evaluation.spread import Spread, all_scores, count_seeds
from nmt.metrics.seeds_significance import SeedsDifference, mean_scores, seeds_difference
from nmt.metrics.significance import LEVEL, format_p
from nmt.run_folder import Run, Status

Texts = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Group:
    """Runs with the same values of the swept keys.

    Attributes:
        name: the swept keys with their values, in the form of the command line.
        label: the same, but only the last part of each key: `width=8` instead of `model.width=8`.
        values: the value of each swept key; empty if no key varies, or if the configuration cannot
            be read. A run without a readable configuration is a group of its own.
        runs: in the order of `run_order`.
        difference: from the best group in mean validation BLEU, and its p; None if not tested.
    """

    name: str
    label: str
    values: Mapping[str, Any]
    runs: Sequence[Run]
    difference: SeedsDifference | None = None

    @property
    def complete(self) -> list[Run]:
        """The complete runs."""
        return [run for run in self.runs if run.final]

    def spread(self, metric: str) -> Spread | None:
        """Return the spread of a score (see `Run.score`) over the complete runs, if any."""
        scores = [run.score(metric) for run in self.complete]
        values = [score for score in scores if score is not None]
        return Spread.of(values) if values else None

    def all_scores(self) -> dict[tuple[str, str], Spread]:
        """Return the spread of all scores of the complete runs (see `spread.all_scores`).

        There is at least one complete run; the values are in the order of the seeds.
        """
        return all_scores([run.final for run in self.by_seed() if run.final])

    def by_seed(self) -> list[Run]:
        """Return the complete runs in the order of their seeds."""
        return sorted(self.complete, key=lambda run: int(run.seed or 0))

    def order(self) -> tuple[bool, float, float]:
        """Sort key: the best first, groups without a complete run last."""
        bleu, loss = self.spread("bleu"), self.spread("loss")
        return (False, -bleu.mean, loss.mean) if bleu and loss else run_order(self.runs[0])


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, grouped.

    Attributes:
        groups: the best first, groups without a complete run last.
        texts: sources and references of the validation set; empty if unknown, or if runs differ.
        note: why differences were not tested; empty if they were.
    """

    folder: Path
    keys: Sequence[str]
    groups: Sequence[Group]
    texts: Texts
    note: str

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def runs(self) -> list[Run]:
        """All runs in the order of `run_order`."""
        return sorted((run for group in self.groups for run in group.runs), key=run_order)

    def verdict(self) -> str:
        """Describe which group is best, by how much, and whether this may be chance.

        If only the seed varies, return BLEU on the first test set, in the form for a document.
        """
        ranked = [(group, spread) for group in self.groups if (spread := group.spread("bleu"))]
        if not ranked:
            return "No run is complete."
        (best, bleu), *others = ranked
        if not self.keys:
            scores = best.all_scores()
            tests = [name for name, metric in scores if metric == "bleu" and name != "valid"]
            split = next(iter(tests), "valid")
            score = scores[split, "bleu"]
            text = f"{split} BLEU {score.format('bleu')} ({count_seeds(score.values)})"
            return f"{text}  {score.signature}".rstrip()
        text = f"Best on validation: {best.label}, BLEU {bleu.format('bleu')}"
        text += f" ({count_seeds(bleu.values)})"
        for second, spread in others[:1]:
            difference = bleu.mean - spread.mean
            clauses = [_over_seeds(bleu, spread)]
            if tested := second.difference:
                outcome = "significant" if tested.p < LEVEL else "not significant"
                clauses.insert(0, f"{outcome} over sentences, p {format_p(tested.p)}")
            text += f", {difference:.2f} above {second.label} ({'; '.join(clauses)})"
        return f"{text}."


def read_sweep(folder: Path) -> Sweep:
    """Read all runs of a sweep, also while they are in progress."""
    paths = sorted(path for path in folder.glob("*") if not path.name.startswith("."))
    found = [run for run in map(Run, paths) if run.status]
    runs = _counted_once(sorted(found, key=run_order))
    keys = swept_keys([run.settings for run in runs if run.settings])
    members: dict[str, list[Run]] = {}
    for run in runs:
        values = [run.settings.get(key) for key in keys]
        members.setdefault(repr(values) if run.settings else run.name, []).append(run)
    groups = sorted((_group(same, keys) for same in members.values()), key=Group.order)
    texts: Texts = [], []
    note = ""
    try:
        texts = _validation_text(runs)
        groups = _tested(groups, texts[1])
    except UserError as error:
        note = one_line(error)
    return Sweep(folder, keys, groups, texts, note)


def run_order(run: Run) -> tuple[bool, float, float]:
    """Sort key: complete runs first, then by BLEU and loss on validation, the best first."""
    bleu, loss = run.score("bleu"), run.score("loss")
    return run.final is None, 1.0 if bleu is None else -bleu, loss or 0


def swept_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values differ and that can change a result more than a seed does.

    In a sweep over rows of Table 3, keys whose values follow from the row are left out.
    """

    def num_values(*keys: str) -> int:
        return len({repr([config.get(key) for key in keys]) for config in configs})

    return [
        key
        for key in dict.fromkeys(key for config in configs for key in config)
        if key not in RANDOM_KEYS
        and not is_free_key(key)
        and num_values(key) > 1
        and (key == ROW_KEY or num_values(ROW_KEY, key) > num_values(ROW_KEY))
    ]


def format_value(value: Any) -> str:
    """Format a value of the configuration."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        value = ",".join(map(format_value, value))
    return f"{value:.4g}" if isinstance(value, float) else "none" if value == "" else str(value)


def count_statuses(runs: Sequence[Run]) -> str:
    """Return the number of runs by status, such as `5 complete, 1 failed`."""
    counts = Counter(run.status for run in runs)
    return ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])


def _counted_once(runs: Sequence[Run]) -> list[Run]:
    """Mark each run whose seed, settings and corpus an earlier run has as not counted."""
    names: dict[str, str] = {}
    counted = []
    for run in runs:
        settings = {key: value for key, value in run.settings.items() if not is_free_key(key)}
        if run.final and settings and run.known_corpus:
            first = names.setdefault(repr((settings, run.known_corpus.folder.name)), run.name)
            if first != run.name:
                note = f"same seed and settings as {first}; not counted"
                counted.append(replace(run, not_counted=note))
                continue
        counted.append(run)
    return sorted(counted, key=run_order)


def _group(runs: Sequence[Run], keys: Sequence[str]) -> Group:
    settings = runs[0].settings
    values = {key: settings.get(key) for key in keys if settings}
    parts = [f"{key}={format_value(value)}" for key, value in values.items()]
    name = ", ".join(parts) or ("all" if settings else runs[0].name)
    labels = [f"{key.rpartition('.')[2]}={format_value(value)}" for key, value in values.items()]
    return Group(name, ", ".join(labels) or name, values, runs)


def _over_seeds(best: Spread, other: Spread) -> str:
    """Compare the difference of two means with its standard error over seeds."""
    if best.deviation is None or other.deviation is None:
        return "spread over seeds unknown"
    variance = best.deviation**2 / len(best.values) + other.deviation**2 / len(other.values)
    outcome = "above" if best.mean - other.mean > 2 * math.sqrt(variance) else "within"
    return f"{outcome} two standard errors over seeds"


def _validation_text(runs: Sequence[Run]) -> Texts:
    """Return the validation set; UserError if it differs between runs or no longer exists."""
    corpora = {run.known_corpus.folder: run.known_corpus for run in runs if run.known_corpus}
    texts = [corpus.read_text("valid") for corpus in corpora.values()]
    if not texts:
        raise UserError("there is no corpus of the runs")
    if any(one != texts[0] for one in texts):
        raise UserError("the corpora of the runs have different validation texts")
    return texts[0]


def _tested(groups: Sequence[Group], references: Sequence[str]) -> list[Group]:
    """Test the differences from the best group; UserError if translations are missing."""
    complete = [group for group in groups if group.complete]
    for run in (run for group in complete for run in group.complete):
        if len(run.translations) != len(references):
            raise UserError(f"{run.name} has no {VALID_HYPOTHESES_FILE} of this validation text")
    translations = [[run.translations for run in group.complete] for group in complete]
    tokenizers = {run.bleu_tokenizer for group in complete for run in group.complete}
    if len(tokenizers) > 1:
        names = ", ".join(sorted(tokenizers))
        raise UserError(f"the runs have different tokenisers of BLEU: {names}")
    means = mean_scores(translations, references, *tokenizers)
    tested = [
        replace(group, difference=seeds_difference(mean, means[0]))
        for group, mean in zip(complete[1:], means[1:], strict=True)
    ]
    return [*complete[:1], *tested, *groups[len(complete) :]]
