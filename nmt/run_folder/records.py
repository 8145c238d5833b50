"""Status of a run, and contents of its JSON files."""

import json
import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from nmt.base import layout
from nmt.base.locks import is_locked

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


class ValidationRecord(TypedDict):
    """Loss and BLEU on the validation set."""

    loss: float
    bleu: float


class CostRecord(TypedDict):
    """Cost of a training."""

    training_flops: float
    device_hours: float
    target_tokens: int
    parameters: NotRequired[int]


def describe_cost(cost: CostRecord) -> str:
    """Describe the cost of a training in one line."""
    return (
        f"{cost['training_flops']:.3g} floating-point operations,"
        f" {cost['device_hours']:.2f} device hours, {cost['target_tokens']:,} target tokens"
    )


@with_config(_OTHER_KEYS)
class Result(TypedDict):
    """`result.json`: the result of a completed run."""

    chosen: str
    valid: ValidationRecord
    updates: int
    training_seconds: float
    test_sets: dict[str, TestSetRecord]
    cost: NotRequired[CostRecord]


class Failure(TypedDict):
    """`failure.json` of a run that failed in a sweep."""

    lines: list[str]


Status = StrEnum("Status", "running complete failed interrupted")

_FILES = {
    Status.complete: layout.RESULT_FILE,
    Status.failed: layout.FAILURE_FILE,
    Status.interrupted: layout.CONFIG_FILE,
}


def status_of(folder: Path) -> Status | None:
    """Return the status of a run; None if the folder is not that of a run.

    While a process holds the run's lock, the status is `running`. After that, the first file of
    `_FILES` that exists gives the status.
    """
    if is_locked(folder / layout.LOCK_FILE):
        return Status.running
    return next((status for status, name in _FILES.items() if (folder / name).is_file()), None)


def parse_record(line: bytes) -> dict[str, Any] | None:
    """Return a record of `metrics.jsonl`; None for a line without an object with `update`."""
    try:
        record: dict[str, Any] = json.loads(line)
        record["update"] = int(record["update"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return record


def series(records: Iterable[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return updates and values of the records with `key`; a value that is not a number is NaN."""
    found = [(record["update"], record[key]) for record in records if key in record]
    values = [value if isinstance(value, float | int) else math.nan for _, value in found]
    return [update for update, _ in found], values
