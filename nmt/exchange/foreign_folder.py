"""A folder of unknown origin."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.base.errors import (
    DISK_ERRNOS,
    UserError,
    disk_errno,
    first_line,
    is_out_of_memory,
    one_line,
)
from nmt.base.files import file_inside


class ForeignFolder:
    """A folder of unknown origin, and the file in it that was named last.

    Args:
        path: the folder.
        report: called with the name of each file before it is read.
    """

    def __init__(self, path: Path, report: Callable[[str], object] = str) -> None:
        self.path = path
        self._report = report
        self._current = path

    def file(self, name: str) -> Path:
        """Return the path of a file, which is read next; UserError unless it is in the folder."""
        self._current = file_inside(self.path, name)
        self._report(name)
        return self._current

    def check_contents(self) -> None:
        """Raise UserError if a path leads out of the folder: other programs would follow it."""
        root = os.path.realpath(self.path)
        for path in self.path.rglob("*"):
            is_inside = Path(os.path.realpath(path)).is_relative_to(root)
            if not (is_inside and (path.is_file() or path.is_dir())):
                raise UserError(
                    f"{path}: leads out of its folder, or is no file; copy the file itself into"
                    " the folder"
                )

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Raise UserError, with the file that is read, for an error of any library in the block."""
        try:
            yield
        except (UserError, ImportError):
            raise
        except Exception as error:  # libraries raise errors of any kind for damaged files
            if is_out_of_memory(error) or disk_errno(error) in DISK_ERRNOS:
                raise
            reason = one_line(first_line(error))
            raise UserError(f"{self._current}: cannot be read: {reason}") from error
