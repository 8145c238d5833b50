"""The JSON files of a run folder: types of their values, and reading."""

from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from nmt.base import layout
from nmt.base.files import read_record

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


@with_config(_OTHER_KEYS)
class EvaluationFiles(TypedDict):
    """`scores.json`: the files that the evaluation has written."""

    files: list[str]


class ValidationRecord(TypedDict):
    """Loss and BLEU on the validation set."""

    loss: float
    bleu: float


@with_config(_OTHER_KEYS)
class ValidatedRun(TypedDict):
    """The part of `result.json` by which runs are compared."""

    valid: ValidationRecord


class CostRecord(TypedDict):
    """Cost of a training."""

    training_flops: float
    device_hours: float
    target_tokens: int


@with_config(_OTHER_KEYS)
class RunResult(ValidatedRun):
    """`result.json`: the result of a completed run."""

    chosen: str
    updates: int
    training_seconds: float
    test_sets: dict[str, TestSetRecord]
    cost: NotRequired[CostRecord]


def is_complete(run_folder: Path) -> bool:
    """Return whether the run has ended and its model folder is written."""
    return (run_folder / layout.RESULT_FILE).is_file()


def read_result(run_folder: Path) -> dict[str, Any]:
    """Read `result.json` of a completed run."""
    return dict(read_record(run_folder / layout.RESULT_FILE, RunResult))


def read_environment(run_folder: Path) -> Environment:
    """Read `environment.json` of a run."""
    return read_record(run_folder / layout.ENVIRONMENT_FILE, Environment, "choose another run.name")
