"""Errors that the user can fix."""

import errno
import math
import os
import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

DISK_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_MAX_END_CHARACTERS = 500


class UserError(Exception):
    """An error that the user can fix. The message names the file or key, its value and the fix.

    Commands print the message without a traceback and exit with status 2.
    """

    exit_status = 2

    def __str__(self) -> str:
        return printable(super().__str__())


class BusyError(UserError):
    """Another process is doing the same work."""


class MemoryShortageError(UserError):
    """Memory ran out where no batch can be halved. A restart may find more memory."""


class DiskError(UserError):
    """A file or folder could not be written; `number` is the `errno` of the failed call.

    The message is formatted when it is read. By then partial output has been removed, so the
    reported free space is what the next attempt will have. `needed` is about the number of bytes of
    the complete output, or of what is left of it, if known.
    """

    def __init__(self, path: Path, number: int, needed: int | None = None) -> None:
        super().__init__(path, number, needed)
        self.path, self.number, self.needed = path, number, needed

    def __str__(self) -> str:
        space = [f"about {_format_bytes(self.needed)} needed"] if self.needed else []
        if space and self.number == errno.ENOSPC:
            folder = next(filter(os.path.isdir, self.path.absolute().parents))
            space.append(f"{_format_bytes(shutil.disk_usage(folder).free, math.floor)} free")
        reason = os.strerror(self.number).lower() + (f" ({', '.join(space)})" if space else "")
        return printable(
            f"{self.path}: cannot be written: {reason}; fix this or write elsewhere"
            " (run.outputs= or out=), then run the command again"
        )


def disk_errno(error: BaseException) -> int | None:
    """The `errno` of a failed system call; None for other errors, and for those of a connection.

    Libraries catch an `OSError` and raise an exception of their own. Its message and its causes are
    searched for disk errors only: libraries also catch errors that they expect, such as a missing
    file.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return None if isinstance(error, ConnectionError) else error.errno
    cause = error.__cause__ or error.__context__
    named = (number for number in DISK_ERRNOS if os.strerror(number) in str(error))
    number = next(named, disk_errno(cause) if cause else None)
    return number if number in DISK_ERRNOS else None


def _format_bytes(num_bytes: float, rounded: Callable[[float], int] = math.ceil) -> str:
    for unit in ("bytes", "kB", "MB"):
        if num_bytes < 10_000:
            return f"{rounded(num_bytes):,} {unit}"
        num_bytes /= 1000
    return f"{rounded(num_bytes):,} GB"


def printable(text: str) -> str:
    """Escape unprintable characters, such as terminal escape sequences, except tabs and "\\n"."""

    def is_kept(c: str) -> bool:  # `isprintable` is False for spaces other than " "
        return c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs"

    return "".join(c if is_kept(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(message: object) -> str:
    """Return a text as one printable line; of a long text, keep the beginning and the end."""
    text = printable(re.sub(r"\s", " ", str(message)))
    if len(text) > 2 * _MAX_END_CHARACTERS:
        return f"{text[:_MAX_END_CHARACTERS]} … {text[-_MAX_END_CHARACTERS:]}"
    return text


def first_line(error: BaseException) -> str:
    """The first non-empty line of an error's message, or the name of its type.

    For an error of pydantic: the first field and what is wrong with it.
    """
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if lines and re.match(r"\d+ validation errors? for ", lines[0]):
        return ": ".join(lines[1:3])
    return next(iter(lines), type(error).__name__)


def missing(error: ImportError) -> str:
    """Describe an error of an import: a package is missing, or its version does not fit."""
    return f"{error.name} is not installed" if error.name else first_line(error)


# Parts of the messages of allocators. oneDNN names only what it could not create, and NVIDIA's
# libraries give only a code.
_MEMORY_WORDS = (
    *("can't allocate memory", "Cannot allocate memory", "bad_alloc", "out of memory"),
    *("could not create a primitive", "could not create a memory", "ALLOC_FAILED"),
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory is exhausted, on any device."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _MEMORY_WORDS)


class FailedProcessesError(SystemExit):
    """The processes of a training have failed and reported why; the launcher exits."""
