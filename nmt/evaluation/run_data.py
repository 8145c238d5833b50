"""What a run has left in its folder, and what its baseline has, read for the run's report."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import Config, load_config, load_values, to_plain
from nmt.data.corpus import MANIFEST_FILE, PreparedCorpus
from nmt.errors import UserError, one_line
from nmt.evaluation.systems import (
    EVALUATION_FOLDER,
    NO_BASELINE,
    System,
    find_baseline,
    reference_file,
    system_name,
)
from nmt.files import read_json, read_lines

_CONFIG_FILE = "config.yaml"
_ENVIRONMENT_FILE = "environment.json"
_METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class Translated:
    """A test set as a run has translated it.

    Attributes:
        name: of the test set.
        sources: one sentence each.
        references: one or more sets of them.
        translations: the run's.
        baseline: the baseline's of this very text; None where it has none.
        table: its `scores.json`.
    """

    name: str
    sources: list[str]
    references: list[list[str]]
    translations: list[str]
    baseline: list[str] | None
    table: Mapping[str, Any]


@dataclass(frozen=True)
class Training:
    """What a run says of itself.

    Attributes:
        name: what tables call it.
        config: plain values of its configuration.
        environment: `environment.json`.
        records: those of `metrics.jsonl`.
    """

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunData:
    """All that the report shows.

    Attributes:
        training: the run's own words.
        result: what `result.json` holds or will hold.
        test_sets: translated.
        manifest: the corpus's; empty where the corpus is gone.
        baseline: the run it is held against; None where there is none.
        why: how the baseline was chosen, or why there is none.
    """

    training: Training
    result: Mapping[str, Any]
    test_sets: list[Translated]
    manifest: Mapping[str, Any]
    baseline: Training | None
    why: str


def read_run(
    run: Path, result: Mapping[str, Any], corpus: PreparedCorpus | None, outputs: Path
) -> RunData:
    """Gather what the report needs.

    Args:
        run: the run's folder; `result.json` may not be there yet.
        result: what it holds or will hold.
        corpus: the corpus that the run was trained on; None where it is gone.
        outputs: the folder with the runs that the baseline is chosen among.

    Raises:
        UserError: a file of the run is missing or damaged.
    """
    found = find_baseline(run, corpus, outputs) if corpus else None
    baseline, theirs = found.system if found else None, None
    why = NO_BASELINE if corpus else "the run's corpus is gone"
    if found is not None and baseline is not None:
        try:
            theirs, why = _baseline_training(baseline), found.why
        except UserError as error:
            # Another run's damage is no reason not to report on this one.
            baseline, why = None, f"{found.system.name} cannot be read: {one_line(error)}"
    config = to_plain(load_config(Config, run / _CONFIG_FILE))
    return RunData(
        _training(system_name(run.absolute()), run, config),
        result,
        [
            _translated(run, split, table, baseline)
            for split, table in result.get("test_sets", {}).items()
        ],
        read_json(corpus.folder / MANIFEST_FILE) if corpus else {},
        theirs,
        why,
    )


def _training(name: str, run: Path, config: Mapping[str, Any]) -> Training:
    return Training(
        name, config, read_json(run / _ENVIRONMENT_FILE), read_records(run / _METRICS_FILE)
    )


def _baseline_training(system: System) -> Training:
    """The baseline's; its configuration may be of another version, so it is read as it is."""
    assert system.run is not None
    path = system.run / _CONFIG_FILE
    config: Mapping[str, Any]
    try:
        config = to_plain(load_config(Config, path))
    except UserError:
        # Keys of another version of this program: what is there can be compared all the same.
        config = load_values(path)
    return _training(system.name, system.run, config)


def _translated(
    run: Path, split: str, table: Mapping[str, Any], baseline: System | None
) -> Translated:
    folder = run / EVALUATION_FOLDER / split
    sources = read_lines(folder / "source.txt")
    references = [read_lines(folder / reference_file(0))]
    while (path := folder / reference_file(len(references))).is_file():
        references.append(read_lines(path))
    translations = read_lines(folder / "hypotheses.txt")
    for lines in (*references, translations):
        if len(lines) != len(sources):
            raise UserError(f"{folder}: its files have different numbers of lines; score it again")
    theirs = baseline.stored_hypotheses(split, sources, references) if baseline else None
    return Translated(split, sources, references, translations, theirs, table)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a `metrics.jsonl`; the half line that a killed run leaves is none.

    Raises:
        UserError: a line is no JSON object with `update`.
    """
    if not path.is_file():
        return []
    records = []
    lines = read_lines(path)
    is_whole = path.read_bytes().endswith(b"\n")
    for number, line in enumerate(lines if is_whole else lines[:-1], start=1):
        try:
            record = json.loads(line)
            record["update"] = int(record["update"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: line {number} is no JSON object with `update`") from None
        records.append(record)
    return records


def series(records: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """(update, value) of a key in every record of its kind; NaN where it is not there.

    Records of training and of validation are of different kinds: the part before the slash.
    """
    kind = key.partition("/")[0] + "/"
    found = []
    for record in records:
        if any(name.startswith(kind) for name in record):
            value = record.get(key)
            known = float(value) if isinstance(value, int | float) else math.nan
            found.append((float(record["update"]), known))
    return found
