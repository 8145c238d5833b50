"""Lock files: one process at a time does the same work."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from nmt.base.errors import BusyError, UserError
from nmt.base.files import writing

# When `is_locked` tests a lock, it holds the lock for less than this time.
_SECONDS_OF_A_TEST = 0.2


@contextmanager
def exclusive(path: Path, on_busy: Callable[[], None] | BusyError) -> Iterator[None]:
    """Hold a lock file while the block runs; the system releases it if the process dies.

    If another process holds it, or has just renamed it, the error `on_busy` is raised, or the
    function `on_busy` is called before this process waits. The file is not removed afterwards: a
    process that waits for it, and one that creates it again, would lock different files.
    """
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Opening another user's link would create a file elsewhere; a pipe would wait forever.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UserError(f"{path}: is not a regular file; remove it")
        stream = path.open("a")
    with stream:
        if not (_try_lock(stream) or _try_lock(stream, after=_SECONDS_OF_A_TEST)):
            if isinstance(on_busy, BusyError):
                raise on_busy
            on_busy()
            fcntl.flock(stream, fcntl.LOCK_EX)
        # The process that held the lock of an output has renamed the file meanwhile.
        if isinstance(on_busy, BusyError) and not _is_open(path, stream):
            raise on_busy
        yield


def _is_open(path: Path, stream: IO[str]) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    return False


def _try_lock(stream: IO[str], after: float = 0.0) -> bool:
    time.sleep(after)
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock file; False if this user may not read it."""
    if not path.is_file():  # opening a pipe would wait forever
        return False
    try:
        with path.open("rb") as stream:
            # A shared lock, released immediately, so that two processes that test at the same time
            # do not take each other for the holder.
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it was removed meanwhile, or this user may not read it
        return False
    return False
