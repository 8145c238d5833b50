"""Disks of a few kilobytes, for tests of full disks.

A function runs in a new process with its own mounts (`unshare`) and mounts a tmpfs. Root can always
do so; other users need user namespaces.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import namespaces, support

_MOUNT = f"mount -t tmpfs tmpfs {tempfile.gettempdir()}"

needs_mounts = pytest.mark.skipif(
    not namespaces.unshare("m", _MOUNT),
    reason="this machine does not allow mounts (unshare -m, unshare -Urm)",
)


def in_a_process(function: Callable[..., None], *arguments: str | Path, mounts: bool) -> str:
    """Call a function of a test module in a new process, which must succeed; return its stderr."""
    within = namespaces.unshare("m", _MOUNT) if mounts else []
    return namespaces.in_a_process(function, *arguments, within=within)


@contextmanager
def small_disk(folder: Path, num_bytes: int, **options: int) -> Iterator[Path]:
    """Mount a disk at `folder`; only within `in_a_process`."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = ",".join([f"size={num_bytes}", *(f"{key}={value}" for key, value in options.items())])
    subprocess.run(["mount", "-t", "tmpfs", "-o", chosen, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(folder: Path, option: str) -> None:
    """Change the options of a mounted disk: `ro`, `rw` or `size=…`."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def used_bytes(folder: Path) -> int:
    """Number of used bytes of a disk."""
    disk = os.statvfs(folder)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def fill(folder: Path) -> Path:
    """Fill a disk; return the file whose removal frees the space."""
    path = folder / "filler"
    disk = os.statvfs(folder)
    with path.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, disk.f_bavail * disk.f_frsize)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Contents of every file below a folder by relative path, without locks and cached hashes."""
    return {
        name: data
        for name, data in support.tree(folder).items()
        if not name.endswith((".lock", ".files.json"))
    }
