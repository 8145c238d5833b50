"""What a disk refuses to take, told to the person who can mend it."""

import errno
import math
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nmt.errors import UserError

_AGAIN = "give the same command again"
_ELSEWHERE = "choose another place (run.outputs=FOLDER, or OUT=FILE for a translation)"
_FORBIDDEN = f"the right to write in {{folder}} is missing: get it (chmod, chown), or {_ELSEWHERE}"
_NO_FOLDER = f"{{folder}} is no folder; {_ELSEWHERE}"
_FAILING = f"the disk or the way to it fails; {_AGAIN} when it is well, or {_ELSEWHERE}"

_MENDS = {
    errno.ENOSPC: f"free some and {_AGAIN}",
    errno.EDQUOT: f"remove files of yours there and {_AGAIN}, or {_ELSEWHERE}",
    errno.EFBIG: f"raise the limit (ulimit -f) and {_AGAIN}, or {_ELSEWHERE}",
    errno.EROFS: f"{{folder}} can only be read: mount it for writing, or {_ELSEWHERE}",
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EEXIST: _NO_FOLDER,
    errno.ENOTDIR: _NO_FOLDER,
    errno.ELOOP: _NO_FOLDER,
    errno.ENOENT: f"its folder cannot be made, or was removed just now; {_ELSEWHERE}",
    errno.EISDIR: "a folder has that name; choose another",
    errno.ENAMETOOLONG: "choose a shorter one",
    errno.EIO: _FAILING,
    errno.ENXIO: _FAILING,
    errno.ENODEV: _FAILING,
    errno.ESTALE: _FAILING,
    errno.ENOTCONN: _FAILING,
    errno.ENOLCK: _FAILING,
}

_ABOUT_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_OF_DISKS_ALONE = {*_ABOUT_ROOM, errno.EROFS, errno.EIO}
"""Nobody meets these by trying whether a file is there: an error that follows one comes of it."""

_FEW_FILES = 100


def fault_number(error: BaseException) -> int | None:
    """The `errno` of the disk's refusal that `error` tells of; None when it tells of none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno if error.errno in _MENDS else None
    return fault_number_in(str(error)) or next(
        (
            cause.errno
            for cause in _causes(error)
            if isinstance(cause, OSError) and cause.errno in _OF_DISKS_ALONE
        ),
        None,
    )


def fault_number_in(text: str) -> int | None:
    """The same for the words of a library or a program that keeps its `errno` to itself."""
    return next((number for number in _OF_DISKS_ALONE if os.strerror(number) in text), None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


class DiskFault(UserError):  # noqa: N818 - it says what happened
    """A file or folder that could not be written.

    The message is made when it is read, not when this is raised: what was half-written is gone by
    then, and the room that it names as free is what the same command will find.

    Args:
        path: what could not be written.
        number: the `errno`.
        needed: bytes that all of it takes, where somebody knows.
    """

    def __init__(self, path: Path, number: int, needed: int | None = None) -> None:
        super().__init__(path, number, needed)
        self.path = path
        self.number = number
        self.needed = needed

    def __str__(self) -> str:
        reason = os.strerror(self.number)
        told = [reason[0].lower() + reason[1:], *self._room()]
        mend = _MENDS[self.number].format(folder=_nearest(self.path.parents))
        return f"{self.path}: cannot be written: {'; '.join([*told, mend])}"

    def _room(self) -> Iterator[str]:
        """How much is needed and how much is there."""
        if self.number not in _ABOUT_ROOM:
            return
        place = _nearest([self.path, *self.path.parents])
        needed = f"about {_size(self.needed)} are needed" if self.needed else ""
        if self.number != errno.ENOSPC or place.is_char_device():
            limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
            if self.number == errno.EFBIG and limit != resource.RLIM_INFINITY:
                yield f"a file may hold {_size(limit, math.floor)} here"
            if needed:
                yield needed
            return
        disk = os.statvfs(place)
        free = disk.f_bavail * disk.f_frsize
        if self.needed and self.needed > free:
            yield f"{needed}, {_size(free, math.floor)} are free there"
        else:
            yield f"more than the {_size(free, math.floor)} that are free there are needed"
        if disk.f_files and disk.f_favail < _FEW_FILES:
            yield f"only {disk.f_favail} more files can be made there"


def _nearest(paths: Iterable[Path]) -> Path:
    """The first that is there. Not by Path.exists, which raises where it may not look."""
    return next((path for path in paths if os.path.exists(path)), Path("/"))


def _size(num_bytes: float, rounded: Callable[[float], int] = math.ceil) -> str:
    """A number of bytes for people: "34 MB"."""
    value, unit = float(num_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    places = 10 if value < 10 and unit != "bytes" else 1
    return f"{rounded(value * places) / places:g} {unit}"
