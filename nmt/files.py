"""Reading and writing plain files: strict UTF-8 in, atomic renames out."""

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from nmt.disk_fault import DiskFault, fault_number
from nmt.errors import UserError
from nmt.temporary import clear, flush, put_in_place, remove, temporary_name


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
    try:
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                yield decode_line(raw, str(path), number)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def read_lines(path: Path) -> list[str]:
    """All lines of a UTF-8 file, as `iterate_lines` gives them."""
    return list(iterate_lines(path))


def check_aligned(numbers_of_lines: Mapping[Path, int] | Mapping[str, int]) -> None:
    """Refuse texts that do not go line by line.

    Args:
        numbers_of_lines: of each file, the first being the one that the others go with.

    Raises:
        UserError: which two differ, and by how much.
    """
    (first, expected), *others = numbers_of_lines.items()
    for other, found in others:
        if found != expected:
            raise UserError(
                f"{first} has {expected:,} lines and {other} has {found:,}; they must be aligned"
                ' line by line (a line ends in "\\n" alone)'
            )


@contextmanager
def writing(path: Path, needed: int | None = None) -> Iterator[None]:
    """Tell the user what could not be written, where and why, when the disk refuses.

    Of one block within another, about something inside `path`, the outer one tells.

    Args:
        path: what the block writes.
        needed: bytes that it takes, where somebody knows.

    Raises:
        DiskFault: no room, no right, a failing disk; other errors pass as they are.
    """
    try:
        yield
    except DiskFault as fault:
        if not any(map(fault.path.is_relative_to, (path, temporary_name(path)))):
            raise
        raise DiskFault(path, fault.number, needed or fault.needed) from fault
    except UserError:
        raise
    except Exception as error:  # libraries wrap the system's errors in kinds of their own
        number = fault_number(error)
        if number is None:
            raise
        raise DiskFault(path, number, needed) from error


def written_to(path: Path) -> Path:
    """The file that a rename is to replace: where a link leads, not the link.

    Raises:
        UserError: a device or a pipe stands there, which a rename would take away.
    """
    if os.path.exists(path) and not path.is_file() and not path.is_dir():
        raise UserError(f"{path}: is no file but a device or a pipe; name a file, or - for stdout")
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def check_writable(path: Path) -> None:
    """Raise now, before long work, what writing `path` would raise after it."""
    path = written_to(path)
    with writing(path):
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        tempfile.TemporaryFile(dir=folder).close()


@contextmanager
def atomic_path(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it to disk and rename it to `path`.

    On any exception the temporary file is removed and `path` is left as it was.

    Raises:
        UserError: `path` is no file but a device or a pipe.
        DiskFault: `path` cannot be written; `needed` (bytes) is for the message.
    """
    path = written_to(path)
    with writing(path, needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path)
        temporary = temporary_name(path)
        try:
            yield temporary
            flush(temporary)
            os.replace(temporary, path)
            flush(path.parent)
        finally:
            remove(temporary)


@contextmanager
def atomic_writer(path: Path, needed: int | None = None) -> Iterator[IO[str]]:
    """A text stream (UTF-8, "\\n") whose contents appear at `path` all at once, or not at all."""
    with (
        atomic_path(path, needed) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as out,
    ):
        yield out


@contextmanager
def scratch_folder(path: Path, needed: int | None = None) -> Iterator[Path]:
    """An empty folder beside `path`, to make it in; in the end it goes with all that is in it.

    Raises:
        DiskFault: it cannot be made or filled; `needed` (bytes) is for the message.
    """
    with writing(path, needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path)
        temporary = temporary_name(path)
        try:
            temporary.mkdir()
            yield temporary
        finally:
            clear(path)


@contextmanager
def atomic_folder(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield an empty temporary folder; on success rename it to `path`, which it replaces.

    Raises:
        DiskFault: `path` cannot be written; `needed` (bytes) is for the message.
    """
    with scratch_folder(path, needed) as temporary:
        yield temporary
        for child in temporary.rglob("*"):
            flush(child)
        flush(temporary)
        put_in_place(temporary, path)
        flush(path.parent)


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write files that belong together (UTF-8): none is renamed before all are on disk."""
    with ExitStack() as stack:
        for path, text in texts.items():
            data = text.encode()
            temporary = stack.enter_context(atomic_path(path, len(data)))
            temporary.write_bytes(data)
            flush(temporary)


def to_lines(lines: Iterable[str]) -> str:
    """Each line ended by "\\n"."""
    return "".join(f"{line}\n" for line in lines)


def to_json(value: Any) -> str:
    """Indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def write_lines(path: Path, lines: list[str]) -> None:
    """Write `lines`, each ended by "\\n", atomically."""
    write_texts({path: to_lines(lines)})


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    write_texts({path: to_json(value)})


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UserError: the file is missing or not JSON.
    """
    check_readable(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also of numbers and nesting without end
        raise UserError(f"{path}: is not valid JSON: {error}") from None


@contextmanager
def exclusive(path: Path, on_busy: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path` while the block runs; the system frees it if we die.

    When another process holds it, call `on_busy`: if that returns, wait; if it raises, give up. The
    file is left where it is: removing it would let a third process lock a new file of the same name
    while the second still waits for the old one.
    """
    with ExitStack() as stack:
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(path.open("a"))
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_busy()
                fcntl.flock(stream, fcntl.LOCK_EX)
        yield
