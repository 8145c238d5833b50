"""Reading and writing plain files: strict UTF-8 in, atomic renames out."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from nmt.errors import UserError


def check_readable(path: Path) -> None:
    """Raise UserError unless `path` is a file that can be read."""
    # Not `path.exists()`: that raises for a name that no file can have.
    if not os.path.exists(path):
        raise UserError(f"{path}: no such file")
    if not path.is_file():
        raise UserError(f"{path}: is not a file")
    if not os.access(path, os.R_OK):
        raise UserError(f"{path}: cannot be read: permission denied")


def file_inside(folder: Path, name: str) -> Path:
    """Path of a file of a folder that is whole by itself, as one that was given away has to be.

    Raises:
        UserError: the file is missing, is not an ordinary file (a pipe would never end), cannot be
            read, or lies outside the folder: by its name or by a link.
    """
    path = folder / name
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise UserError(f"{path}: leads out of its folder; put the file itself there")
    if not os.path.exists(path):
        raise UserError(f"{path}: no such file; {folder} is not whole")
    check_readable(path)
    return path


def decode_line(raw: bytes, name: str, number: int) -> str:
    """One line of UTF-8, without its final "\\n"; `name` and `number` (from 1) are for the message.

    Raises:
        UserError: the bytes are not UTF-8; it names the file, the line and the byte.
    """
    try:
        return raw.removesuffix(b"\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}: line {number}, byte {error.start + 1}: 0x{raw[error.start]:02x} is not valid"
            " UTF-8; convert the file first (for example: iconv -f latin1 -t utf-8)"
        ) from None


def iterate_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file. A line ends in "\\n" alone: "\\r" and U+2028 are ordinary text.

    Raises:
        UserError: the file is missing, unreadable or not UTF-8.
    """
    check_readable(path)
    with path.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            yield decode_line(raw, str(path), number)


def read_lines(path: Path) -> list[str]:
    """All lines of a UTF-8 file, as `iterate_lines` gives them."""
    return list(iterate_lines(path))


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to disk and rename it to `path`.

    On any exception the temporary file is removed and `path` is left as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        flush_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_writer(path: Path) -> Iterator[IO[str]]:
    """A text stream (UTF-8, "\\n") whose contents appear at `path` all at once, or not at all."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        yield out


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder; on success rename it to `path`, which it replaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    retired = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for child in temporary.rglob("*"):
            if child.is_file():
                with child.open("rb") as stream:
                    os.fsync(stream.fileno())
        flush_folder(temporary)
        if path.exists():
            os.replace(path, retired)
        os.replace(temporary, path)
        flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(retired, ignore_errors=True)


def flush_folder(path: Path) -> None:
    """Flush a folder's own entries, so that a rename in it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_lines(path: Path, lines: list[str]) -> None:
    """Write `lines`, each ended by "\\n", atomically."""
    with atomic_writer(path) as out:
        out.writelines(f"{line}\n" for line in lines)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with atomic_writer(path) as out:
        json.dump(value, out, ensure_ascii=False, indent=2)
        out.write("\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UserError: the file is missing or not JSON.
    """
    check_readable(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not valid JSON: {error}") from None


@contextmanager
def exclusive(path: Path, on_busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; the system frees it if we die.

    When another process holds it, call `on_busy`: if that returns, wait; if it raises, give up. The
    file is left where it is: removing it would let a third process lock a new file of the same name
    while the second still waits for the old one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_busy()
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
