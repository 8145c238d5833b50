"""What is made beside its place, under a temporary name: putting it in place, clearing it away."""

import ctypes
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

# Of linux/fcntl.h and linux/fs.h: names count from the working folder; swap what they stand for.
_WORKING_FOLDER, _EXCHANGE = -100, 2


def temporary_name(path: Path, ending: str = "tmp") -> Path:
    """Where this process makes `path` ("tmp"), or keeps the folder that it replaces ("old")."""
    return path.with_name(f".{path.name}.{os.getpid()}.{ending}")


def flush(path: Path) -> None:
    """Flush a file, or a folder's own entries, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(folder: Path, path: Path) -> None:
    """Rename a folder to `path`; an old one there is left under a temporary name, for `clear`."""
    if os.path.lexists(path):
        if _exchange(folder, path):
            return
        # Killed between these two we leave nothing at `path`, until `clear` puts the old one back.
        os.replace(path, temporary_name(path, "old"))
    os.replace(folder, path)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step, where system and file system can: Linux's renameat2."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    names = os.fsencode(first), os.fsencode(second)
    result: int = rename(_WORKING_FOLDER, names[0], _WORKING_FOLDER, names[1], _EXCHANGE)
    return result == 0


def clear(path: Path) -> None:
    """Remove what this process, or one that was killed, has left beside `path`; never raises.

    An old folder is put back where no new one has taken its place. Processes of other machines are
    not seen here: what two of them might write at a time has a lock.
    """
    ours = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,9}})\.(tmp|old)")
    with suppress(OSError):
        for name in os.listdir(path.parent):
            found = ours.fullmatch(name)
            if found is None or _is_anothers(int(found[1])):
                continue
            if found[2] == "old" and not os.path.lexists(path):
                os.replace(path.with_name(name), path)
            else:
                remove(path.with_name(name))


def _is_anothers(process: int) -> bool:
    """Whether another process, which is alive, may still write under that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return process != os.getpid()


def remove(path: Path) -> None:
    """Remove a file or a folder where there is one; never raises.

    It is called behind an error, and that one is to be told: what cannot be removed stays.
    """
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
