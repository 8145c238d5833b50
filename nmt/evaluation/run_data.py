"""Data of a completed run and of its baseline, read from their folders for the report."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import read_lines, read_record
from nmt.config import Config, load_config, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.systems import NO_BASELINE, System, find_baseline, system_name


@dataclass(frozen=True)
class TranslatedSet:
    """A test set with the translations of a run and, if there are any, of its baseline."""

    name: str
    sources: list[str]
    references: list[list[str]]
    translations: list[str]
    baseline: list[str] | None


@dataclass(frozen=True)
class Training:
    """Configuration of a run as plain values, its environment and records of `metrics.jsonl`."""

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]

    def series(self, key: str) -> tuple[list[float], list[float]]:
        """Return updates and values of a key, with NaN where a record has no number.

        Records of training and of validation differ in the prefix of their keys.
        """
        prefix = key.partition("/")[0] + "/"
        records = [one for one in self.records if any(name.startswith(prefix) for name in one)]
        values = [record.get(key) for record in records]
        return (
            [float(record["update"]) for record in records],
            [float(value) if isinstance(value, int | float) else math.nan for value in values],
        )


@dataclass(frozen=True)
class RunData:
    """All data of a report.

    Attributes:
        manifest: the manifest of the corpus; empty if the corpus no longer exists.
        why: how the baseline was chosen, or why there is none.
    """

    training: Training
    result: Mapping[str, Any]
    test_sets: list[TranslatedSet]
    manifest: Mapping[str, Any]
    baseline: Training | None
    why: str


def read_run(
    run: Path, result: Mapping[str, Any], corpus: PreparedCorpus | None, outputs: Path
) -> RunData:
    """Read the data of a report; `report.write_report` describes the arguments."""
    found = find_baseline(run, corpus, outputs) if corpus else None
    system, baseline = found.system if found else None, None
    why = NO_BASELINE if corpus else "the corpus of the run no longer exists"
    if found is not None and found.system.run is not None:
        try:
            baseline, why = _read_training(found.system.run, found.system.name), found.why
        except UserError as error:
            # A damaged baseline does not prevent the report of this run.
            system, why = None, f"{found.system.name} cannot be read: {one_line(error)}"
    return RunData(
        _read_training(run, system_name(run.absolute())),
        result,
        [_read_translations(run, split, system) for split in result.get("test_sets", {})],
        corpus.manifest if corpus else {},
        baseline,
        why,
    )


def _read_training(run: Path, name: str) -> Training:
    config = to_plain(load_config(Config, run / layout.CONFIG_FILE))
    environment = read_record(run / layout.ENVIRONMENT_FILE, dict[str, Any])
    return Training(name, config, environment, read_records(run / layout.METRICS_FILE))


def _read_translations(run: Path, split: str, baseline: System | None) -> TranslatedSet:
    folder = run / layout.EVALUATION_FOLDER / split
    sources = read_lines(folder / layout.SOURCE_FILE)
    references = [read_lines(folder / layout.reference_file(0))]
    while (path := folder / layout.reference_file(len(references))).is_file():
        references.append(read_lines(path))
    translations = read_lines(folder / layout.HYPOTHESES_FILE)
    if any(len(lines) != len(sources) for lines in (*references, translations)):
        raise UserError(f"{folder}: its files have different numbers of lines; evaluate it again")
    theirs = baseline.stored_hypotheses(split, sources, references) if baseline else None
    return TranslatedSet(split, sources, references, translations, theirs)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`, without the incomplete last line of a killed run.

    Raises:
        UserError: a line is not a JSON object with `update`.
    """
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
            record["update"] = int(record["update"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"{path}: line {number} is not a JSON object with `update`") from None
        records.append(record)
    return records
