"""Status of a run, from the files in its folder."""

from enum import StrEnum
from pathlib import Path

from typing_extensions import TypedDict

from nmt.base import layout
from nmt.base.locks import is_locked

Status = StrEnum("Status", "running complete pruned failed interrupted")

_FILES = {
    Status.complete: layout.RESULT_FILE,
    Status.pruned: layout.PRUNED_FILE,
    Status.failed: layout.FAILURE_FILE,
    Status.interrupted: layout.CONFIG_FILE,
}


class Pruned(TypedDict):
    """`pruned.json`: the update at which a search has stopped a run, and its validation loss."""

    update: int
    loss: float


class Failure(TypedDict):
    """`failure.json`: the last lines of the error that has ended a run of a sweep."""

    lines: list[str]


def run_status(folder: Path) -> Status | None:
    """Return the status of a run; None if the folder is not that of a run.

    A run is in progress while a process holds its lock; otherwise the first file of complete,
    pruned, failed and interrupted runs counts.
    """
    if is_locked(folder / layout.LOCK_FILE):
        return Status.running
    return next((status for status, name in _FILES.items() if (folder / name).is_file()), None)
