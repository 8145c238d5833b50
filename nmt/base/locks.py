"""Lock files: one process at a time does the same work."""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from nmt.base.errors import BusyError, UserError
from nmt.base.files import remove

# When `is_locked` tests a lock, it holds the lock for less than this time.
_SECONDS_OF_A_TEST = 0.2


def open_plain(path: Path) -> FileIO:
    """Open a file to read and write it, without a buffer; create it if it does not exist.

    Raises:
        UserError: it is not a regular file. A link of another user could lead anywhere, and a pipe
            would wait forever.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise UserError(f"{path}: is not a regular file; remove it")
    return FileIO(os.open(path, flags, 0o666), "r+")


@contextmanager
def exclusive(
    path: Path, on_busy: Callable[[], None] | BusyError, is_kept: bool = True
) -> Iterator[None]:
    """Hold a lock file while the block runs; the system releases it if the process dies.

    Args:
        path: the lock file; its folder is created.
        on_busy: raised, or called before this process waits, if another process holds the lock.
        is_kept: whether the lock file stays after the block.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_plain(path) as stream:
            if not (_try_lock(stream) or _try_lock(stream, after=_SECONDS_OF_A_TEST)):
                if isinstance(on_busy, BusyError):
                    raise on_busy
                on_busy()
                fcntl.flock(stream, fcntl.LOCK_EX)
            # Two processes would lock different files if one of them was removed meanwhile.
            if not _is_open(path, stream):
                continue
            try:
                yield
            finally:
                if not is_kept:
                    remove(path)
            return


def _is_open(path: Path, stream: FileIO) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(stream.fileno()))
    return False


def _try_lock(stream: FileIO, after: float = 0.0) -> bool:
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
