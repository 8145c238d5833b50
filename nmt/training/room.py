"""The memory there is, for training to fit in."""

import ctypes
import math
import os
import platform
import resource
from pathlib import Path

import torch

# Some is left for what is not measured: the system, other programs, the disk's cache.
_SHARE = 0.9

_STATUS = Path("/proc/self/status")
_MEMORY = Path("/proc/meminfo")


def room_for_training(device: torch.device, local_processes: int = 1) -> int:
    """Bytes that one of so many processes on this host may take, this one's own included."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # `distributed.join` deals the processes out to the GPUs, one after the other.
        on_one = math.ceil(local_processes / torch.cuda.device_count())
        return int(_SHARE * (free / on_one + torch.cuda.memory_reserved(device)))
    rooms = [_field(_MEMORY, "MemAvailable"), *_group_rooms()]
    free = min((room for room in rooms if room is not None), default=_all_memory())
    room = int(_SHARE * free / local_processes) + program_bytes()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        room = min(room, program_bytes() + int(_SHARE * max(0, limit - mapped_bytes())))
    return room


def program_bytes() -> int:
    """Bytes of memory that this process takes now."""
    return _field(_STATUS, "VmRSS") or peak_bytes()


def give_back_freed() -> None:
    """Hand freed memory back to the system, where the C library (glibc) keeps it."""
    # Tensors of ever other sizes leave holes in its heap, and a long run would grow by them.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def mapped_bytes() -> int:
    """Bytes of address space that this process has; 0 where the system does not say."""
    return _field(_STATUS, "VmSize") or 0


def peak_bytes() -> int:
    """Most bytes of memory that this process has taken."""
    # The kernel's own account first: the other one includes who started this process.
    told = _field(_STATUS, "VmHWM")
    unit = 1 if platform.system() == "Darwin" else 1024
    return told or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _field(path: Path, name: str) -> int | None:
    """A field in kB of a file of the kernel's, in bytes; None where there is none."""
    if not path.is_file():
        return None
    _, found, rest = path.read_text(encoding="utf-8").partition(f"{name}:")
    return int(rest.split()[0]) * 1024 if found else None


def _group_rooms(root: Path = Path("/sys/fs/cgroup")) -> list[int]:
    """What control groups leave us: of our own group and of all above it (version 2 and 1)."""
    own = Path("/proc/self/cgroup")
    if not own.is_file():
        return []
    rooms = []
    for line in own.read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", maxsplit=2)
        if controllers not in ("", "memory"):
            continue
        top = root / controllers
        names = ("memory.max", "memory.current")
        if controllers:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        group = top / path.lstrip("/")
        # In a container the path is often one of the host's; its own group is at the top.
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                limit, usage = (_number(folder / name) for name in names)
                if limit is not None and usage is not None:
                    rooms.append(max(0, limit - usage + _reclaimable(folder / "memory.stat")))
    return rooms


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdecimal() else None


def _reclaimable(path: Path) -> int:
    """Bytes of files that the kernel drops when memory is asked for."""
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0


def _all_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
