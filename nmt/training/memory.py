"""Memory of this process, and memory that is available to it, in bytes."""

import ctypes
import math
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from nmt.base.system import is_address_space_limited

# Share of the free memory that training may use. The rest is left to the system, to other programs
# and to the file cache.
_USABLE = 0.9

_M_MMAP_MAX = -4  # an option of glibc's mallopt (malloc.h)

_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available_memory(device: torch.device, processes_on_host: int = 1) -> int:
    """Return how much memory this process may use, including what it uses now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        sharing = math.ceil(processes_on_host / torch.cuda.device_count())
        return int(_USABLE * (free / sharing + torch.cuda.memory_reserved(device)))
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    left = min([_field(_MEMINFO, "MemAvailable", 1024) or physical, *_left_in_groups()])
    return int(_USABLE * left / processes_on_host) + resident_memory()


def resident_memory() -> int:
    """Return the memory that this process uses now."""
    return _field(_STATUS, "VmRSS", 1024) or peak_memory()


def peak_memory(device: torch.device | None = None) -> int:
    """Return the most memory that this process has used, or has reserved on a GPU."""
    if device is not None and device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    # Linux: `ru_maxrss` may include the process that started this one, VmHWM does not.
    unit = 1 if sys.platform == "darwin" else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return _field(_STATUS, "VmHWM", 1024) or used


def limit_memory(size: int) -> None:
    """Limit this process to `size` bytes: allocations fail before the system kills it (Linux)."""
    if data := _field(_STATUS, "VmData", 1024):
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (data + max(0, size - resident_memory()), hard))


def keep_freed_memory() -> None:
    """Let the C library (glibc) keep freed memory for the next tensors of this process.

    By default, it returns the memory of a large tensor to the system at once, and the system clears
    the pages of the next tensor. Clearing takes a seventh of an update of the base model.
    If the address space is limited, nothing is changed: holes in the heap would take what other
    allocations need.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and not is_address_space_limited():
        set_option(_M_MMAP_MAX, 0)  # no tensor has pages of its own, outside of the heap


def release_freed_memory() -> None:
    """Make the C library (glibc) return to the system the freed memory that it keeps."""
    # Tensors of varying sizes leave holes in the heap, so the memory of a long run would grow.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _field(path: Path, name: str, unit: int = 1) -> int:
    """Return the value of a line `name: value` or `name value` of a file; 0 if there is none."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.search(rf"^{name}:?\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) * unit if found else 0


def _left_in_groups() -> Iterator[int]:
    """Yield the free memory of each control group (version 2 or 1) that limits this process."""
    text = _OWN_GROUPS.read_text(encoding="utf-8") if _OWN_GROUPS.is_file() else ""
    for version, path in re.findall(r"^\d+:(|memory):/(.*)$", text, re.MULTILINE):
        names = ("limit_in_bytes", "usage_in_bytes") if version else ("max", "current")
        group = _GROUPS / version / path
        # A group's parents limit it too. In a container, the path is often that of the host, while
        # the container's own group is mounted at the top; that folder is among the parents.
        for folder in (group, *group.parents):
            try:
                limit, usage = (int((folder / f"memory.{name}").read_text()) for name in names)
            except (OSError, ValueError):  # no such group, or no limit ("max")
                continue
            yield max(0, limit - usage + _field(folder / "memory.stat", "inactive_file"))
