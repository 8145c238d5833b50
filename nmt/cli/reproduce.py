"""From the checksums of the text to a verdict on a figure.

python -m nmt.cli.reproduce result=multi30k_en_de data=FOLDER
"""

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from data_prep.manifest import read_facts
from data_prep.prepare import prepare
from nmt.cli.common import console, name_files, parse_arguments, run_command, set_up_logging
from nmt.cli.compose import CONFIG_FOLDER, compose_config
from nmt.cli.seeds import summary_path, train_seeds
from nmt.cli.train import train
from nmt.config import FREE_KEYS, Config
from nmt.data.corpus import PreparedCorpus, more_reference_paths
from nmt.errors import UserError
from nmt.evaluation.evaluate import corpus_test_set
from nmt.evaluation.known_test_sets import identify
from nmt.evaluation.results import Result, find_result, judge, lines_about, require_band
from nmt.evaluation.scores import METRIC_NAMES
from nmt.evaluation.seeds import SeedsSummary, Spread, in_words
from nmt.files import check_writable, read_json, write_json
from nmt.training.environment import commit

USAGE = """python -m nmt.cli.reproduce result=NAME [data=FOLDER] [key=value …]

  result=NAME       a row of the table
  data=FOLDER       the folder that holds the row's files, which are checked by their checksums; for
                    rows of the hub, a folder with its parquet files (default: the hub)
  measure=true      record the figures and judge nothing: for rows without a band
  table=FILE        the table (default: conf/results.yaml)
  training.KEY=… run.outputs=… decoding.batch_size=… tracking.KEY=…
                    keys that change no result: num_processes, num_threads, …

The exit status is 0 when the mean over the seeds lies inside the band, 1 when it lies outside, and
2 when something has to be mended before that can be told."""

EXIT_OUTSIDE = 1

# Ours to set: each result has runs of its own.
_OWN_KEYS = ("run.name", "run.folder", "run.accept_changes", "run.dry_run", "corpus.path")


@dataclass(frozen=True)
class Arguments:
    """Arguments of the command; `USAGE` explains them."""

    result: str = ""
    data: str = ""
    measure: bool = False
    table: str = ""
    training: dict[str, str] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)
    decoding: dict[str, str] = field(default_factory=dict)
    tracking: dict[str, str] = field(default_factory=dict)


Steps = dict[str, str]
"""What was done and how it ended, in order."""


def main() -> None:
    """Run the command."""
    arguments = parse_arguments(Arguments, USAGE)
    set_up_logging()
    result = find_result(Path(arguments.table or CONFIG_FOLDER / "results.yaml"), arguments.result)
    for line in (f"{result.name}: {result.recipe.about}", *lines_about(result)):
        console.print(line, markup=False, soft_wrap=True)
    if not arguments.measure:
        require_band(result)
    steps: Steps = {}
    _check_data(result, arguments.data, steps)
    config = _configuration(result, arguments)
    out = Path(config.run.outputs) / "reproduce" / f"{result.name}.json"
    check_writable(out)
    _prepare(result, config, steps)
    summary = train_seeds(config, result.recipe.seeds, train)
    runs = read_json(summary_path(config))["runs"]
    _note_seeds(result, summary, runs, steps)
    is_accepted, words = True, "measured, not judged (measure=true)"
    if not arguments.measure:
        verdict = judge(result, _spread(result, summary))
        is_accepted, words = verdict.is_inside, verdict.words
    steps["verdict"] = words
    _show(result, steps)
    write_json(out, _account(result, summary, runs, steps))
    name_files([out])
    console.print(f"{result.name}: {words}", markup=False, soft_wrap=True)
    if not is_accepted:
        raise SystemExit(EXIT_OUTSIDE)


def _check_data(result: Result, data: str, steps: Steps) -> None:
    """Raise UserError unless the files are the row's, byte for byte."""
    files = result.data.files
    if not files:
        steps["data"] = f"no checksums are stated; {result.data.origin}"
        return
    if not data:
        raise UserError(
            f"data= is missing: name the folder of {', '.join(files)}. {_origin(result)}"
        )
    folder = Path(data)
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        raise UserError(f"{folder}: has no {', '.join(missing)}. {_origin(result)}")
    differing = [name for name, sha in files.items() if read_facts(folder / name).sha256 != sha]
    # Further references would raise every score.
    scored = [name for name in files if name.startswith(f"{result.recipe.test_set}.")]
    more = [path.name for name in scored for path in more_reference_paths(folder / name)]
    if differing or more:
        faults = [f"{name} is other text" for name in differing]
        faults += [f"{name} is one more reference, and the result has one" for name in more]
        steps["data"] = f"{folder}: {'; '.join(faults)}"
        steps["verdict"] = "nothing was trained: the figure would be of other text"
        _show(result, steps)
        raise UserError(f"{steps['data']} (by SHA-256). {_origin(result)}")
    steps["data"] = f"{folder}: {len(files)} files, their checksums are those stated"


def _origin(result: Result) -> str:
    return f"The text: {result.data.origin}"


def _configuration(result: Result, arguments: Arguments) -> Config:
    """The row's recipe, with what the user may choose without changing it."""
    recipe = result.recipe
    values = {"run.name": f"reproduce_{result.name}"}
    if arguments.data:
        values["corpus.path"] = arguments.data
    for group in ("training", "run", "decoding", "tracking"):
        for name, value in getattr(arguments, group).items():
            key = f"{group}.{name}"
            if not key.startswith(FREE_KEYS) or key in _OWN_KEYS:
                raise UserError(
                    f"{key}={value} is no choice here: it belongs to the recipe {result.name};"
                    " change the row, or use nmt.cli.train"
                )
            values[key] = value
    return compose_config([f"experiment={recipe.experiment}", *recipe.overrides], values)


def _prepare(result: Result, config: Config, steps: Steps) -> None:
    folder = prepare(config.corpus, config.tokenizer, config.corpora_folder)
    corpus = PreparedCorpus(folder)
    name = result.recipe.test_set
    if name not in corpus.test_splits:
        raise UserError(
            f"{result.name}: test_set: {name} is none of {', '.join(corpus.test_splits)}"
        )
    test_set = corpus_test_set(corpus, name)
    identity = identify(name, test_set.direction[1], test_set.all_references)
    known = identity.known_as or "; ".join(identity.warnings) or "unknown to this program"
    steps["prepared"] = str(folder)
    steps["test set"] = f"{name}, {len(test_set.sources):,} sentences: {known}"


def _note_seeds(
    result: Result, summary: SeedsSummary, runs: Mapping[str, Any], steps: Steps
) -> None:
    recipe = result.recipe
    spread = _spread(result, summary)
    now = commit()
    for seed, score in zip(summary.seeds, spread.values, strict=True):
        run = runs[str(seed)]
        other = "" if run["commit"] == now else f" (the program is now at {now})"
        minutes = run["training_seconds"] / 60
        steps[f"seed {seed}"] = (
            f"{score:.2f}: {run['updates']:,} updates, {minutes:.1f} minutes, commit"
            f" {run['commit']}{other}"
        )
    band = result.expected
    half = "" if spread.ci95 is None else f"; 95 % interval of the mean ± {spread.ci95:.2f}"
    steps["scored"] = f"{METRIC_NAMES[recipe.metric]} {in_words(spread)}{half}"
    steps["expected"] = (
        f"{band.lowest:.2f} to {band.highest:.2f} (mean {band.mean:.2f} when it was stated)"
        if band
        else "no band stated yet"
    )


def _spread(result: Result, summary: SeedsSummary) -> Spread:
    recipe = result.recipe
    spread = summary.test_sets[recipe.test_set].get(recipe.metric)
    if spread is None:
        raise UserError(
            f"{summary.name}: a seed was scored before there was metric={recipe.metric}; remove its"
            " run folder, and give the command again"
        )
    return spread


def _show(result: Result, steps: Steps) -> None:
    table = Table(title=result.name, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("step", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for step, outcome in steps.items():
        table.add_row(step, Text(outcome))
    console.print(table)


def _account(
    result: Result, summary: SeedsSummary, runs: Mapping[str, Any], steps: Steps
) -> dict[str, Any]:
    """What `outputs/reproduce/<name>.json` holds; `measured` can be copied into the table."""
    recipe = result.recipe
    first = next(iter(runs.values()))
    processor = " + ".join(first["gpus"]) or first["processor"]
    seconds = [run["training_seconds"] for run in runs.values()]
    spread = summary.test_sets[recipe.test_set][recipe.metric]
    return {
        "result": result.name,
        "steps": steps,
        "recipe": asdict(recipe),
        "expected": asdict(result.expected) if result.expected else None,
        **spread.to_json(),
        "signature": summary.signatures[recipe.test_set][recipe.metric],
        "measured": {
            "date": datetime.date.today().isoformat(),
            "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs.values())),
            "hardware": f"{processor}, {first['processes']} × {first['threads']} threads",
            "minutes": round(sum(seconds) / len(seconds) / 60, 1),
            "figures": {
                str(seed): round(score, 2)
                for seed, score in zip(summary.seeds, spread.values, strict=True)
            },
        },
        "runs": runs,
    }


if __name__ == "__main__":
    run_command(main)
