"""Which processor this is, and how much of it is ours."""

import functools
import os
import platform
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")


def processor_name() -> str:
    """The CPU's name as its maker sells it, or "unknown"."""
    return _entry("model name") or platform.processor() or "unknown"


def is_intel() -> bool:
    """Whether Intel made the CPU."""
    # Windows gives the maker at the end of the processor's name, macOS nothing of either.
    return "GenuineIntel" in (_entry("vendor_id") or platform.processor())


def num_cores() -> int:
    """Cores that this process may use, which `taskset` and schedulers limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _entry(name: str) -> str:
    """What Linux says of the first CPU under this name, or ""."""
    if _CPU_INFO.is_file():
        for line in _CPU_INFO.read_text(encoding="utf-8").splitlines():
            if line.startswith(name):
                return line.partition(":")[2].strip()
    return ""
