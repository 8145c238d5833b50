"""Status of a run, from the files in its folder."""

import fcntl
from enum import StrEnum
from pathlib import Path

from typing_extensions import TypedDict

from nmt.base import layout

_LOCK_FILE = ".lock"  # held by nmt.runs.train

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
    if is_locked(folder / _LOCK_FILE):
        return Status.running
    return next((status for status, name in _FILES.items() if (folder / name).is_file()), None)


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file; see `nmt.base.files.exclusive`."""
    try:
        with path.open("rb") as stream:
            # A shared lock, released immediately: two commands that look do not see each other.
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or it belongs to another user
        return False
    return False
