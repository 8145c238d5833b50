"""Real disks of some kilobytes, for tests of what happens when they are full.

A function runs in a fresh process that has mounts of its own (`unshare`), mounts a tmpfs there and
leaves no trace. Root does so freely, others in a user namespace where the machine lets them.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import namespaces

_MOUNT = f"mount -t tmpfs tmpfs {tempfile.gettempdir()}"

needs_mounts = pytest.mark.skipif(
    not namespaces.unshare("m", _MOUNT),
    reason="this machine lets us mount no tmpfs (unshare -m, unshare -Urm)",
)


def in_a_process(function: Callable[..., None], *arguments: str | Path, mounts: bool) -> str:
    """Call a function of a test module in a fresh process, which must succeed; returns stderr."""
    within = namespaces.unshare("m", _MOUNT) if mounts else []
    return namespaces.in_a_process(function, *arguments, within=within)


@contextmanager
def small_disk(place: Path, num_bytes: int, **options: int) -> Iterator[Path]:
    """Mount a disk of that size at `place`; only within `in_a_process`."""
    place.mkdir(parents=True, exist_ok=True)
    chosen = ",".join([f"size={num_bytes}", *(f"{key}={value}" for key, value in options.items())])
    subprocess.run(["mount", "-t", "tmpfs", "-o", chosen, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def remount(place: Path, option: str) -> None:
    """Change a mounted disk: `ro`, `rw` or `size=…`."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(place)], check=True)


def used_bytes(place: Path) -> int:
    """What is used on a disk."""
    disk = os.statvfs(place)
    return (disk.f_blocks - disk.f_bfree) * disk.f_frsize


def fill(place: Path) -> Path:
    """Leave no room on a disk; returns the file to remove to have it again."""
    path = place / "filler"
    disk = os.statvfs(place)
    with path.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, disk.f_bavail * disk.f_frsize)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative path; locks and remembered hashes left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and path.name != ".files.json"
    }
