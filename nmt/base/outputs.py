"""What a command writes: locked and checked at its start, and checked again before it is renamed.

A command may replace a file that `out=` names, and folders in which every file was written by an
earlier command. It never replaces its own inputs, links, or files of runs, models and corpora.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path

from nmt.base.errors import BusyError, UserError
from nmt.base.files import (
    flush_all,
    put,
    read_record,
    remove_leftovers,
    temporary_path,
    write_json,
    writing,
)
from nmt.base.layout import result_folder
from nmt.base.locks import exclusive
from nmt.base.log import print_line

_Version = tuple[int, int, int]
_Found = dict[Path, _Version]


@dataclass(frozen=True)
class _Record:
    """The part of a record, such as `export.json`, that lists the files of its folder."""

    files: list[str]


class Outputs:
    """Files, or a folder, that a command writes together.

    `paths` are their names. What appears or changes there while the command runs is kept: the
    result then gets the first free name of `NAME.1`, `NAME.2`, …, which replaces the one in
    `paths`.
    """

    def __init__(self, paths: Sequence[Path], is_folder: bool = False, record: str = "") -> None:
        self.paths = list(paths)
        self._is_folder, self._record = is_folder, record
        self._found: list[_Found] = [{} for _ in paths]  # what may be replaced

    @classmethod
    @contextmanager
    def files(
        cls, paths: Sequence[Path], inputs: Sequence[Path] = (), replaces: bool = False
    ) -> Iterator["Outputs"]:
        """Check and lock files.

        Args:
            paths: the files.
            inputs: files and folders that the command reads.
            replaces: whether existing files may be replaced.

        Raises:
            UserError: a file must not be replaced.
            BusyError: another process writes one of the files.
        """
        outputs = cls(paths)
        outputs.look()
        outputs.check_files(inputs, replaces)
        with outputs.locked():
            yield outputs

    @classmethod
    @contextmanager
    def folder(
        cls, path: Path, inputs: Sequence[Path] = (), record: str = ""
    ) -> Iterator["Outputs"]:
        """Check and lock a folder, which is written as a whole; see `files`.

        It must be new or empty, or contain nothing but what its file `record` lists (`files`). A
        new record is written with the folder, unless the command writes it.
        """
        outputs = cls([path], is_folder=True, record=record)
        remove_leftovers(path)  # or a folder that a killed process moved would appear later
        check_not_read(outputs.paths, inputs)
        if os.path.lexists(path):
            outputs._found = [_check_folder(path, record)]
        with outputs.locked():
            yield outputs

    def check_files(self, inputs: Sequence[Path], replaces: bool) -> None:
        """Raise UserError if the files must not be written; see `files`."""
        for path in filter(os.path.lexists, self.paths):
            if path.is_symlink():
                raise UserError(f"{path} is a link to {os.readlink(path)}; name a file with out=")
            if path.is_dir():
                raise UserError(f"out={path} is a folder; name a file")
            if not path.is_file():
                raise UserError(f"{path} is a device or a pipe; name a file, or - for stdout")
            if folder := result_folder(path):
                raise UserError(f"{path}: would replace a file of {folder}; change out=")
            if not replaces:
                raise UserError(
                    f"{path} already exists; remove or rename it, or name another with out= (for"
                    " make: OUT=)"
                )
        check_not_read(self.paths, inputs)

    def look(self) -> None:
        """Remember what exists now: only that may be replaced, and only while it is unchanged."""
        self._found = list(map(self._versions, self.paths))

    def _versions(self, path: Path) -> _Found:
        return dict(islice(_versions(path), None if self._is_folder else 1))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock for each output; at the end, remove the lock files and folders for them."""
        missing = [each for path in self.paths for each in path.parents if not each.exists()]
        with ExitStack() as stack:
            stack.callback(_remove_empty, missing)
            for path in self.paths:
                busy = BusyError(
                    f"{path} is being written by another process; wait for it, or name another"
                    " with out= (for make: OUT=)"
                )
                with writing(path):
                    lock = path.with_name(f".{path.name}.lock")
                    stack.enter_context(exclusive(lock, busy, is_kept=False))
            yield

    @contextmanager
    def written(self, needed: int | None = None) -> Iterator[list[Path]]:
        """Yield a temporary file, or an empty folder, for each output, which it becomes at the end.

        `needed` is about the number of bytes of each, for the message about a full disk.
        """
        with ExitStack() as stack:
            paths = [stack.enter_context(temporary_path(path, needed)) for path in self.paths]
            if self._is_folder:
                paths[0].mkdir()
            yield paths
            if self._record and not (paths[0] / self._record).exists():
                files = [*files_below(paths[0]), self._record]
                write_json(paths[0] / self._record, {"files": files})
            for path in paths:
                flush_all(path)
            for index, path in enumerate(paths):
                self.put(index, path)

    def write(self, *texts: str) -> None:
        """Write the text of each file."""
        with self.written(max(len(text.encode()) for text in texts)) as paths:
            for path, text in zip(paths, texts, strict=True):
                path.write_bytes(text.encode())

    def written_files(self) -> list[Path]:
        """Return the files that were written."""
        [folder] = self.paths
        return [folder / name for name in files_below(folder)]

    def put(self, index: int, temporary: Path) -> None:
        """Rename a complete file or folder to the output with this index."""
        path = self.paths[index]
        if self._versions(path) != self._found[index]:
            names = (path.with_name(f"{path.name}.{number}") for number in count(1))
            free = next(name for name in names if not os.path.lexists(name))
            print_line(f"{path} has appeared or changed meanwhile and is kept; written to {free}")
            self.paths[index] = path = free
        put(temporary, path)


def files_below(folder: Path) -> list[str]:
    """Return the files below a folder, relative to it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return [str(path.relative_to(folder)) for path in paths]


def check_not_read(outputs: Iterable[Path], inputs: Sequence[Path]) -> None:
    """Raise UserError if an output is an input, or exists in an input folder, or contains one."""
    for output in outputs:
        path = Path(os.path.realpath(output))
        for read in map(Path, map(os.path.realpath, inputs)):
            is_within = path.is_relative_to(read) or read.is_relative_to(path)
            if path == read or (path.exists() and is_within):
                raise UserError(f"{output}: would overwrite {read}, which is read; change out=")


def _check_folder(folder: Path, record: str) -> _Found:
    """Return what a folder contains; UserError unless that is what its record lists."""
    advice = "name another folder with out= (for make: OUT=)"
    is_plain = folder.is_dir() and not folder.is_symlink() and folder.name not in ("", "..")
    if not is_plain or os.path.ismount(folder):  # it could not be renamed
        raise UserError(f"out={folder} exists and is not a plain folder; {advice}")
    try:
        listed = set(read_record(folder / record, _Record).files) if record else set()
    except UserError:
        listed = set()
    folders = {str(parent) for name in listed for parent in Path(name).parents}
    found = {}
    for path, version in _versions(folder):
        name = str(path.relative_to(folder))
        is_folder = path.is_dir() and not path.is_symlink()
        if path != folder and name not in (folders if is_folder else listed):
            raise UserError(f"{path}: was not written by this command; {advice}")
        found[path] = version
    return found


def _versions(path: Path) -> Iterator[tuple[Path, _Version]]:
    """Yield inode, size and time of the last change of a path and of everything below it."""
    for each in chain([path], path.rglob("*")):
        with suppress(FileNotFoundError, NotADirectoryError):
            status = each.lstat()
            yield each, (status.st_ino, status.st_size, status.st_mtime_ns)


def _remove_empty(folders: Iterable[Path]) -> None:
    with suppress(OSError):  # one has files, or is gone
        for folder in folders:
            folder.rmdir()
