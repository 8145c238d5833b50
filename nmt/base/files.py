"""Read plain files, and write files and folders that appear complete or not at all."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from nmt.base.decoding import decode_line
from nmt.base.errors import DiskError, UserError, disk_errno, one_line

Record = TypeVar("Record")


def check_readable(path: Path) -> None:
    """Raise UserError unless `path` is a regular file that can be read."""
    if is_forbidden(path):
        raise UserError(f"{path}: cannot be read: permission denied")
    # Not `path.exists()`, which raises OSError if the name is too long.
    if not os.path.exists(path):
        raise UserError(f"{path}: no such file")
    if not path.is_file():
        raise UserError(f"{path}: is not a file")


def is_forbidden(path: Path) -> bool:
    """Return whether this user lacks permission to read a path, or to enter its folder."""
    if os.path.exists(path):
        return not os.access(path, os.R_OK)
    return not os.access(next(filter(os.path.isdir, path.absolute().parents)), os.X_OK)


def is_plain_name(name: str) -> bool:
    """Return whether `name` is printable, not hidden and contains no separator of folders."""
    return name != "" and name.isprintable() and "/" not in name and not name.startswith(".")


def file_inside(folder: Path, *names: str) -> Path:
    """Return `folder/names…`, which may be untrusted; UserError unless it is a file in `folder`."""
    for name in names:
        if not is_plain_name(name):
            raise UserError(f"{folder}: {name!r} is not a plain file name; rename the file")
    path = folder.joinpath(*names)
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise UserError(f"{path}: leads out of its folder; copy the file itself into the folder")
    if not (os.path.exists(path) or is_forbidden(path)):
        raise UserError(f"{path}: no such file; {folder} is incomplete")
    check_readable(path)
    return path


def raw_lines(path: Path) -> Iterator[bytes]:
    """Iterate over the lines of a file, including line ends; only a line feed ends a line."""
    check_readable(path)
    try:
        with path.open("rb") as stream:
            yield from stream
    except OSError as error:  # else `writing` around a loop would blame an output
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def iterate_lines(path: Path) -> Iterator[str]:
    """Iterate over the lines of a UTF-8 file, without line ends; see `raw_lines`."""
    for number, raw in enumerate(raw_lines(path), start=1):
        yield decode_line(raw, str(path), number)


def read_lines(path: Path) -> list[str]:
    """Read all lines of a UTF-8 file; see `iterate_lines`."""
    return list(iterate_lines(path))


def file_version(path: Path) -> tuple[int, int]:
    """Return the size and the time of the last change of a file; UserError if it is gone."""
    check_readable(path)
    return (status := path.stat()).st_size, status.st_mtime_ns


def check_unchanged(versions: Mapping[Path, tuple[int, int]]) -> None:
    """Raise UserError if a file no longer has the given version; see `file_version`."""
    for path, version in versions.items():
        if file_version(path) != version:
            raise UserError(f"{path}: was changed while it was read; run the command again")


def check_aligned(numbers_of_lines: Mapping[Path, int] | Mapping[str, int]) -> None:
    """Raise UserError unless all files have as many lines as the first one."""
    first, expected = next(iter(numbers_of_lines.items()))
    for other, found in numbers_of_lines.items():
        if found != expected:
            raise UserError(
                f"{first} has {expected:,} lines and {other} has {found:,}; they must be aligned"
                " line by line (only a line feed ends a line)"
            )


def read_json(path: Path) -> Any:
    """Read a JSON file of any shape."""
    return read_record(path, object)


def read_record(
    path: Path, kind: type[Record], fix: str = "remove the file and run the command again"
) -> Record:
    """Read a JSON file and check the types of its values by `kind`, such as a dataclass.

    Unknown keys are ignored unless `kind` forbids them. `fix` is the advice in the error if the
    file is not valid.
    """
    check_readable(path)
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, problem["loc"]))
        where = f"{path}: key {key}" if key else str(path)
        raise UserError(one_line(f"{where}: {problem['msg']}; {fix}")) from None


@contextmanager
def writing(path: Path, needed: int | None = None) -> Iterator[None]:
    """Raise DiskError, with `path` and `needed`, if the block fails to write `path` to the disk.

    A DiskError for a file inside `path` becomes one for `path`. Other errors pass unchanged.
    """
    try:
        yield
    except DiskError as error:
        if not any(map(error.path.is_relative_to, (path, _temporary_name(path)))):
            raise
        raise DiskError(path, error.number, needed or error.needed) from error
    except UserError:
        raise
    except Exception as error:
        if (number := disk_errno(error)) is None:
            raise
        raise DiskError(path, number, needed) from error


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with writing(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(path: Path) -> None:
    """Flush a file, or a folder and everything below it, to disk."""
    for written in (*path.rglob("*"), path):
        flush(written)


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists. Raise no OSError: it would hide an earlier error."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _temporary_name(path: Path, ending: str = "tmp") -> Path:
    """Return where this process writes `path` ("tmp") or keeps the folder it replaces ("old")."""
    return path.with_name(f".{path.name}.{os.getpid()}.{ending}")


def remove_leftovers(path: Path) -> None:
    """Remove what this process, or one that has died, left beside `path`. Raise no OSError.

    An old folder is restored if `path` does not exist. Processes of other machines count as dead.
    """
    leftover = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,9}})\.(tmp|old)")
    with suppress(OSError):
        for found in filter(None, map(leftover.fullmatch, os.listdir(path.parent))):
            if _is_other_process(int(found[1])):
                continue
            if found[2] == "old" and not os.path.lexists(path):
                os.replace(path.with_name(found[0]), path)
            else:
                remove(path.with_name(found[0]))


def _is_other_process(number: int) -> bool:
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return number != os.getpid()


@contextmanager
def temporary_path(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield an unused path beside `path`, for a file or a folder that is removed afterwards.

    After a kill, the next process that writes `path` removes it. For `needed`, see `DiskError`.
    """
    with writing(path, needed):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        temporary = _temporary_name(path)
        if os.path.lexists(temporary):  # a link of another user could lead anywhere
            raise UserError(f"{temporary}: cannot be removed; remove it")
        try:
            yield temporary
        finally:
            remove_leftovers(path)


def put(temporary: Path, path: Path) -> None:
    """Flush the file or folder `temporary` to disk, and rename it to `path`, which is replaced.

    If `path` is a link, the link itself is replaced. Raise UserError for a device or a pipe.
    """
    flush_all(temporary)
    if os.path.exists(path) and not path.is_file() and not path.is_dir():
        raise UserError(f"{path}: is a device or a pipe; name a file, or - for stdout")
    with writing(path):
        if temporary.is_dir() and os.path.lexists(path):
            # If this process dies between the renames, the next writer of `path` undoes the first.
            os.replace(path, _temporary_name(path, "old"))
        os.replace(temporary, path)
        flush(path.parent)


@contextmanager
def atomic_path(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield a temporary path; the file or folder written there replaces `path` at the end.

    If the block raises, `path` is unchanged. See `put`; for `needed`, see `DiskError`.
    """
    with temporary_path(path, needed) as temporary:
        yield temporary
        put(temporary, path)


@contextmanager
def atomic_folder(path: Path, needed: int | None = None) -> Iterator[Path]:
    """Yield an empty temporary folder that replaces `path` at the end; see `atomic_path`."""
    with atomic_path(path, needed) as temporary:
        temporary.mkdir()
        yield temporary


def no_link(path: str, flags: int) -> int:
    """Open a file, as an `opener` of `open`; OSError if it is a link, which could lead anywhere."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def append_text(path: Path, text: str) -> None:
    """Append to a file (UTF-8), never through a link."""
    # Opened for each text, because closing a file repeats a write that has failed.
    with writing(path), open(path, "a", encoding="utf-8", opener=no_link) as out:
        out.write(text)


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write files that belong together (UTF-8); all are on disk before the first is renamed."""
    with ExitStack() as stack:
        for path, text in texts.items():
            data = text.encode()
            temporary = stack.enter_context(atomic_path(path, len(data)))
            temporary.write_bytes(data)
            flush(temporary)


def to_lines(lines: Iterable[str]) -> str:
    """Join lines, each ended by a line feed."""
    return "".join(f"{line}\n" for line in lines)


def to_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file, atomically."""
    write_texts({path: to_lines(lines)})


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file as indented JSON, atomically."""
    write_texts({path: to_json(value)})
