"""Reproduce a score: check its text, train its seeds, compare the mean with the accepted range."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.manifest import read_facts
from data_prep.prepare import prepare
from nmt.base.errors import UserError
from nmt.base.files import check_writable, read_json, write_json
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.metrics.scores import METRIC_NAMES
from nmt.runs.results import Result
from nmt.runs.seeds import Spread, summary_path, train_seeds


def check_data(result: Result, data: str) -> str:
    """Compare the files with the row's checksums, and return a sentence for the report.

    Additional references, which would raise every score, are rejected.
    """
    files, origin = result.data.files, f"The text: {result.data.origin}"
    if not files:
        return f"data: no checksums are stated; {result.data.origin}"
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
        f"{path.name} is an additional reference, and the result has one reference"
        for name in files
        if name.startswith(f"{result.test_set}.")
        for path in more_reference_paths(folder / name)
    ]
    if problems:
        raise UserError(f"{folder}: {'; '.join(problems)}. {origin}")
    return f"data: {folder}: the checksums of all {len(files)} files agree"


def reproduce(
    result: Result,
    config: Config,
    is_judged: bool,
    train: Callable[[Config], float | None],
    report: Callable[[str], None],
) -> tuple[bool, str, Path]:
    """Train every seed of a row and compare the mean with the accepted range if it is judged.

    `train` trains one experiment unless it is complete; `report` gets a line for each step.

    Returns:
        Whether the mean is accepted, a sentence that says so, and the file written.
    """
    steps: dict[str, str] = {}

    def note(step: str, outcome: str) -> None:
        steps[step] = outcome
        report(f"{step}: {outcome}")

    path = Path(config.run.outputs) / "reproduce" / f"{result.name}.json"
    check_writable(path)
    folder = prepare(config.corpus, config.tokenizer, config.corpora_folder)
    note("prepared", str(folder))
    corpus = PreparedCorpus(folder)
    if result.test_set not in corpus.test_splits:
        raise UserError(f"{result.name}: the corpus has no test set {result.test_set}")
    summary = train_seeds(config, result.seeds, train, report)
    runs = read_json(summary_path(config))["runs"]
    spread = summary.test_sets[result.test_set][result.metric]
    for seed, score in zip(summary.seeds, spread.values, strict=True):
        run = runs[str(seed)]
        minutes = f"{run['training_seconds'] / 60:.1f} minutes"
        note(f"seed {seed}", f"{score:.2f}: {minutes}, commit {run['commit']}")
    interval = f"; 95 % interval {spread.format_interval()}" if spread.ci95 else ""
    note("scored", f"{METRIC_NAMES[result.metric]} {spread.format()}{interval}")
    is_accepted, verdict = True, "measured, not judged (measure=true)"
    if is_judged:
        is_accepted, verdict = result.judge(spread)
    steps["verdict"] = verdict
    write_json(path, _account(result, summary.seeds, spread, runs, steps))
    return is_accepted, verdict, path


def _account(
    result: Result,
    seeds: Sequence[int],
    spread: Spread,
    runs: Mapping[str, Any],
    steps: Mapping[str, str],
) -> dict[str, Any]:
    """Return the contents of `reproduce/<name>.json`; `measured` can be copied into the row."""
    first = next(iter(runs.values()))
    processor = " + ".join(first["gpus"]) or first["processor"]
    minutes = [run["training_seconds"] / 60 for run in runs.values()]
    measured = {
        "date": datetime.date.today().isoformat(),
        "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs.values())),
        "hardware": f"{processor}, {first['processes']} × {first['threads']} threads",
        "minutes": round(sum(minutes) / len(minutes), 1),
        "figures": dict(zip(seeds, (round(score, 2) for score in spread.values), strict=True)),
    }
    account = {"result": result.name, "steps": steps, "measured": measured, "runs": runs}
    return account | {"recipe": asdict(result), **asdict(spread)}
