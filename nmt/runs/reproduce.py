"""Reproduce a score: check the text, train all seeds, compare the mean with the accepted range.

`conf/results.yaml` lists published and reproduced scores. Its first comment explains the keys.
"""

import datetime
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from data_prep.manifest import read_facts
from data_prep.prepare import prepare_corpus
from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import to_json
from nmt.base.job_output import labelled
from nmt.base.log import print_line, print_written
from nmt.base.outputs import Outputs
from nmt.config import MAX_SEED, Config, checked_dataclass, from_mapping, load_values
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.evaluation.spread import Spread, all_scores, count_seeds
from nmt.metrics.scores import METRIC_NAMES, format_score
from nmt.run_folder import Run
from nmt.runs.multirun import print_end
from nmt.runs.sweep import write_sweep_report
from nmt.runs.train import train


@checked_dataclass
class Band:
    """Accepted range of the mean over the seeds, and the mean when the range was set."""

    mean: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0


@checked_dataclass
class Anchor:
    """A score published by others, shown for comparison only."""

    score: float = 0.0
    form: str = ""  # its metric, and how it differs from scores of this program
    citation: str = ""


@checked_dataclass
class Data:
    """Where the text can be obtained, and the SHA-256 of its files by name."""

    origin: str = ""
    files: dict[str, str] = field(default_factory=dict)


@checked_dataclass
class Result:
    """One row of `conf/results.yaml`: a recipe, its data and its expected score."""

    name: str = ""
    about: str = ""
    experiment: str = ""
    overrides: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    test_set: str = ""
    metric: str = ""
    expected: Band | None = None
    data: Data = field(default_factory=Data)
    anchors: list[Anchor] = field(default_factory=list)
    measured: list[dict[str, Any]] = field(default_factory=list)
    not_measured: str = ""

    def __post_init__(self) -> None:
        band = self.expected
        is_valid = all(0 <= seed <= MAX_SEED for seed in self.seeds)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or not is_valid:
            raise UserError(f"seeds: {self.seeds} must be distinct integers from 0 to {MAX_SEED}")
        if self.metric not in METRIC_NAMES:
            raise UserError(f"metric: {self.metric} is not one of {', '.join(METRIC_NAMES)}")
        if band is not None and not band.lowest <= band.mean <= band.highest:
            raise UserError("expected: needs lowest <= mean <= highest")

    def require_band(self) -> Band:
        """Return the accepted range; UserError if the row has none."""
        if self.expected is None:
            raise UserError(f"{self.name} has no expected score yet; add measure=true")
        return self.expected

    def judge(self, spread: Spread) -> tuple[bool, str]:
        """Return whether the mean over seeds is accepted, and a sentence about it."""
        band = self.require_band()
        is_accepted = band.lowest <= spread.mean <= band.highest
        verdict = "reproduced" if is_accepted else "not reproduced"
        mean = f"mean {METRIC_NAMES[self.metric]} {format_score(self.metric, spread.mean)}"
        accepted = f"accepted: {band.lowest} to {band.highest}"
        return is_accepted, f"{verdict}: {mean} of {count_seeds(spread.values)}; {accepted}"


def read_results(path: Path) -> dict[str, Result]:
    """Read all rows of a table of results, by name."""
    results: dict[str, Result] = {}
    for name, row in load_values(path).items():
        if not isinstance(row, Mapping):
            raise UserError(f"{path}: {name} must be a mapping of keys, as the other rows are")
        values = {"name": str(name), **row}
        results[str(name)] = from_mapping(Result, values, f"{path}: {name}")
    return results


def find_result(path: Path, name: str) -> Result:
    """Read one row; UserError if there is none of this name, or the file is invalid."""
    results = read_results(path)
    if name not in results:
        raise UserError(f"result={name} is unknown; choose one of {', '.join(results)} ({path})")
    return results[name]


def check_data(result: Result, data: str) -> str:
    """Compare the files in folder `data` with the row's checksums; return a sentence to print.

    UserError if a file is missing or differs, or for additional references, which raise scores.
    """
    files, origin = result.data.files, f"Origin of the text: {result.data.origin}"
    if not files:
        return f"data: the row has no checksums. {origin}"
    if not data:
        raise UserError(f"data= is missing: name the folder of {', '.join(files)}. {origin}")
    folder = Path(data)
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder} has no {', '.join(missing)}. {origin}")
    problems = [
        f"{name} has another SHA-256"
        for name, digest in files.items()
        if read_facts(folder / name).sha256 != digest
    ]
    problems += [
        f"{path.name} is an additional reference, but the result has only one"
        for name in files
        if name.startswith(f"{result.test_set}.")
        for path in more_reference_paths(folder / name)
    ]
    if problems:
        raise UserError(f"{folder}: {'; '.join(problems)}. {origin}")
    return f"data: {folder}: the checksums of all {len(files)} files agree"


def reproduce(result: Result, config: Config, is_judged: bool) -> bool:
    """Train every seed of a row; return False only if the mean is judged and not accepted.

    The runs are those of a sweep, `<outputs>/sweeps/<run.name>/training.seed=N`.
    """
    path = Path(config.run.outputs) / "reproduce" / f"{result.name}.json"
    with Outputs.files([path], replaces=True) as outputs:
        found, is_accepted = _reproduce(result, config, is_judged)
        outputs.write(to_json(found))
    print_written(outputs.paths)
    print_line(f"{result.name}: {found['steps']['verdict']}")
    return is_accepted


def _reproduce(result: Result, config: Config, is_judged: bool) -> tuple[dict[str, Any], bool]:
    """Train every seed; return the record, and whether the mean is accepted or not judged."""
    corpus = prepare_corpus(config)
    if result.test_set not in PreparedCorpus(corpus).test_splits:
        raise UserError(f"{result.name}: the corpus has no test set {result.test_set}")
    sweep = Path(config.run.outputs) / layout.SWEEPS_FOLDER / config.run.name
    folders = {seed: sweep / f"training.seed={seed}" for seed in result.seeds}
    for seed, folder in folders.items():
        training, run = replace(config.training, seed=seed), replace(config.run, folder=str(folder))
        with labelled(folder.name):
            train(replace(config, training=training, run=run))
            print_end(folder)
    write_sweep_report(sweep)
    runs: dict[int, dict[str, Any]] = {}
    for seed, trained in zip(folders, map(Run, folders.values()), strict=True):
        runs[seed] = {"folder": trained.name, **trained.environment, **trained.result}
    spread = all_scores(list(runs.values())).get((result.test_set, result.metric))
    if spread is None:
        raise UserError(
            f"{sweep}: the runs have no {result.metric} of {result.test_set} with the same"
            " signature; choose another run.outputs"
        )
    steps = {"prepared": str(corpus)}
    for (seed, record), score in zip(runs.items(), spread.values, strict=True):
        shown, minutes = format_score(result.metric, score), record["training_seconds"] / 60
        steps[f"seed {seed}"] = f"{shown}: {minutes:.1f} minutes, commit {record['commit']}"
    steps["scored"] = f"{METRIC_NAMES[result.metric]} {spread.format(result.metric)}"
    for step, outcome in steps.items():
        print_line(f"{step}: {outcome}")
    is_accepted, verdict = True, "measured, not judged (measure=true)"
    if is_judged:
        is_accepted, verdict = result.judge(spread)
    steps["verdict"] = verdict
    found = {"result": result.name, "steps": steps, "measured": _measured(runs, spread)}
    return {**found, "runs": runs, "recipe": asdict(result), **asdict(spread)}, is_accepted


def _measured(runs: Mapping[int, Mapping[str, Any]], spread: Spread) -> dict[str, Any]:
    """Return an entry of `measured` for the row in `conf/results.yaml`."""
    records = list(runs.values())
    first = records[0]
    processor = " + ".join(first["gpus"]) or first["processor"]
    minutes = [record["training_seconds"] / 60 for record in records]
    figures = (round(score, 2) for score in spread.values)
    return {
        "date": datetime.date.today().isoformat(),
        "commit": ", ".join(dict.fromkeys(record["commit"] for record in records)),
        "hardware": f"{processor}, {first['processes']} × {first['threads']} threads",
        "minutes": round(sum(minutes) / len(minutes), 1),
        "figures": dict(zip(runs, figures, strict=True)),
    }
