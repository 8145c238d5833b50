"""Real disks of some kilobytes, for tests of what happens when they are full.

A function runs in a fresh process that has mounts of its own (`unshare`), mounts a tmpfs there and
leaves no trace. Root does so freely, others in a user namespace where the machine lets them.
"""

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_CALL = """
import importlib, sys
module, name, *arguments = sys.argv[1:]
getattr(importlib.import_module(module), name)(*arguments)
"""


@functools.cache
def _unshare() -> list[str]:
    """The command that gives a process mounts of its own; empty where the machine forbids it."""
    for flags in ("-m", "-Urm"):
        command = ["unshare", flags]
        mount = ["mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()]
        try:
            if not subprocess.run([*command, *mount], capture_output=True, check=False).returncode:
                return command
        except OSError:
            break
    return []


needs_mounts = pytest.mark.skipif(
    not _unshare(), reason="this machine lets us mount no tmpfs (unshare -m, unshare -Urm)"
)


def in_a_process(function: Callable[..., None], *arguments: str | Path, mounts: bool) -> str:
    """Call a function of a test module in a fresh process, which must succeed; returns stderr."""
    ended = subprocess.run(
        [
            *(_unshare() if mounts else []),
            *(sys.executable, "-c", _CALL, function.__module__, function.__name__),
            *map(str, arguments),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


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
