"""Types and readers of the JSON files of a run folder, and the status of a run."""

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import read_record
from nmt.base.locks import is_locked
from nmt.tracking.file_tracker import parse_record

_OTHER_KEYS = ConfigDict(extra="allow")


@with_config(_OTHER_KEYS)
class Environment(TypedDict):
    """`environment.json`: commit, packages and hardware of a run."""

    run_id: str
    commit: str
    processor: str
    cpu_library: Literal["torch", "onednn"]
    gpus: list[str]
    processes: int
    threads: int
    corpus: str
    initial_weights: NotRequired[str]


@with_config(_OTHER_KEYS)
class ScoreRecord(TypedDict):
    """A score of a test set."""

    score: float
    signature: str


@with_config(_OTHER_KEYS)
class TestSetRecord(TypedDict):
    """`scores.json`: the scores of a test set."""

    bleu: ScoreRecord
    sentences: int


class WrittenFiles(TypedDict):
    """`scores.json`, `export.json`: the files that the evaluation or the export has written."""

    files: list[str]


class ValidationRecord(TypedDict):
    """Loss and BLEU on the validation set."""

    loss: float
    bleu: float


class ValidatedRun(TypedDict):
    """The part of `result.json` by which runs are compared."""

    valid: ValidationRecord


class CostRecord(TypedDict):
    """Cost of a training."""

    training_flops: float
    device_hours: float
    target_tokens: int


def describe_cost(cost: CostRecord) -> str:
    """Describe the cost of a training in one line."""
    return (
        f"{cost['training_flops']:.3g} floating-point operations,"
        f" {cost['device_hours']:.2f} device hours, {cost['target_tokens']:,} target tokens"
    )


@with_config(_OTHER_KEYS)
class RunResult(ValidatedRun):
    """`result.json`: the result of a completed run."""

    chosen: str
    updates: int
    training_seconds: float
    test_sets: dict[str, TestSetRecord]
    cost: NotRequired[CostRecord]


class Pruned(TypedDict):
    """`pruned.json`: the update at which a search stopped a run; loss of the best checkpoint."""

    update: int
    loss: float


class Failure(TypedDict):
    """`failure.json`: the last lines of the error, or of the log, of a failed run of a sweep."""

    lines: list[str]


Status = StrEnum("Status", "running complete pruned failed interrupted")

_FILES = {
    Status.complete: layout.RESULT_FILE,
    Status.pruned: layout.PRUNED_FILE,
    Status.failed: layout.FAILURE_FILE,
    Status.interrupted: layout.CONFIG_FILE,
}


def run_status(folder: Path) -> Status | None:
    """Return the status of a run; None if the folder is not that of a run.

    While a process holds the run's lock, the status is `running`. After that, the first file of
    `_FILES` that exists gives the status.
    """
    if is_locked(folder / layout.LOCK_FILE):
        return Status.running
    return next((status for status, name in _FILES.items() if (folder / name).is_file()), None)


def is_complete(run_folder: Path) -> bool:
    """Return whether the run has ended and its model folder is written."""
    return (run_folder / layout.RESULT_FILE).is_file()


def read_result(run_folder: Path) -> dict[str, Any]:
    """Read `result.json` of a completed run."""
    return dict(read_record(run_folder / layout.RESULT_FILE, RunResult))


def read_environment(run_folder: Path) -> Environment:
    """Read `environment.json` of a run."""
    return read_record(run_folder / layout.ENVIRONMENT_FILE, Environment, "choose another run.name")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read `metrics.jsonl`, if it exists, without the incomplete last line of a killed run.

    Raises:
        UserError: a line is not a JSON object with `update`.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    records = []
    for number, line in enumerate(lines, start=1):
        record = parse_record(line)
        if record is None:
            raise UserError(f"{path}: line {number} is not a JSON object with `update`")
        records.append(record)
    return records


def with_number(records: Iterable[Mapping[str, Any]], key: str) -> list[Mapping[str, Any]]:
    """Return the records in which the value of a key is a number."""
    return [record for record in records if isinstance(record.get(key), float | int)]


def series(records: Iterable[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return updates and values of the records with `key`; a value that is not a number is NaN."""
    found = [(record["update"], record[key]) for record in records if key in record]
    values = [value if isinstance(value, float | int) else math.nan for _, value in found]
    return [update for update, _ in found], values
