"""The processor, the installed libraries and the commit of this program."""

import ctypes
import os
import platform
import resource
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from nmt.base.errors import UserError

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_TIMES = Path("/proc/stat")
_SECONDS_TO_MEASURE = 0.4
_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed version of each package, or "absent"."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def require_package(what: str, package: str, extra: str) -> None:
    """Raise UserError if `package`, which `what` needs, is missing. The message has the remedy."""
    if find_spec(package) is None:
        raise UserError(
            f"{what} needs the package {package}: make install-{extra}, or"
            f" pip install -r requirements-{extra}.txt"
        )


def signal_at_death_of_parent(number: int) -> None:
    """Let Linux send signal `number` to this process when its parent ends, however it ends."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, number, 0, 0, 0)


def is_address_space_limited() -> bool:
    """Whether this process has a limit on its address space, as by `ulimit -v`."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def commit() -> str:
    """Return the commit of the source tree, with `-dirty` if files have changed, or "unknown"."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.check_output(
            command, cwd=Path(__file__).parent, text=True, stderr=subprocess.DEVNULL
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor_name() -> str:
    """Return the model name of the CPU, or "unknown"."""
    return _cpu_info("model name") or platform.processor() or "unknown"


def is_intel() -> bool:
    """Return whether the CPU was made by Intel."""
    return _cpu_info("vendor_id") == "GenuineIntel"


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def idle_cores() -> float:
    """Measure for 0.4 s how many of the cores that this process may use are idle."""
    if not _CPU_TIMES.is_file():
        return num_cores()
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}

    def idle_seconds() -> float:
        lines = map(str.split, _CPU_TIMES.read_text(encoding="utf-8").splitlines())
        # The fourth number counts idle time, the fifth the time of waiting for a disk.
        ticks = sum(int(line[4]) + int(line[5]) for line in lines if line and line[0] in names)
        return ticks / os.sysconf("SC_CLK_TCK")

    start, before = time.monotonic(), idle_seconds()
    time.sleep(_SECONDS_TO_MEASURE)
    return (idle_seconds() - before) / (time.monotonic() - start)


def _cpu_info(name: str) -> str:
    """Return an entry of the first CPU in /proc/cpuinfo, or ""."""
    lines = _CPU_INFO.read_text(encoding="utf-8").splitlines() if _CPU_INFO.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
