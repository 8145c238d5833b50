import ctypes
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nmt.training import memory
from nmt.training.memory import (
    available_memory,
    peak_memory,
    release_freed_memory,
    resident_memory,
)

CPU = torch.device("cpu")


def test_processes_of_a_host_share_its_memory() -> None:
    alone, shared = (available_memory(CPU, number) for number in (1, 4))
    own = resident_memory()
    assert own < shared < alone
    assert (alone - own) / (shared - own) == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(
    ("version", "limit", "usage"),
    [
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_the_limits_of_all_control_groups_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, limit: str, usage: str
) -> None:
    own = tmp_path / "cgroup"
    own.write_text(f"3:cpuset:/\n1:{version}:/outer/inner\n", encoding="utf-8")
    outer = tmp_path / version / "outer"
    (outer / "inner").mkdir(parents=True)
    (outer / "inner" / limit).write_text("max\n", encoding="utf-8")
    (outer / "inner" / usage).write_text("1000\n", encoding="utf-8")
    (outer / limit).write_text("9000\n", encoding="utf-8")
    (outer / usage).write_text("4000\n", encoding="utf-8")
    (outer / "memory.stat").write_text("anon 5\ninactive_file 1000\n", encoding="utf-8")
    monkeypatch.setattr(memory, "_OWN_GROUPS", own)
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    monkeypatch.setattr(memory, "resident_memory", lambda: 0)
    assert available_memory(CPU) == int(0.9 * 6000)


@pytest.mark.parametrize(("processes", "on_one"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_processes_of_a_gpu_share_its_memory(
    monkeypatch: pytest.MonkeyPatch, processes: int, on_one: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 1_000)
    available = available_memory(torch.device("cuda"), processes)
    assert available == int(0.9 * (60_000 / on_one + 1_000))


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_the_peak_is_in_bytes_on_systems_without_proc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, unit: int
) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(memory.sys, "platform", platform)
    expected = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert expected <= peak_memory() < 1.5 * expected


def test_freed_memory_below_used_memory_returns_to_the_system() -> None:
    library = ctypes.CDLL(None)
    if not hasattr(library, "malloc_trim"):
        pytest.skip("the C library is not glibc")
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    size, number = 50_000, 2_000
    blocks = [library.malloc(size) for _ in range(number)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    *freed, kept = blocks
    for block in freed:
        library.free(block)
    before = resident_memory()
    release_freed_memory()
    assert before - resident_memory() > 0.9 * size * number
    library.free(kept)


def test_freed_tensors_stay_in_the_process_until_memory_is_released() -> None:
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("the C library is not glibc")
    # In a process of its own, because the option cannot be reset.
    code = """
import torch
from nmt.training.memory import keep_freed_memory, release_freed_memory, resident_memory
keep_freed_memory()
before = resident_memory()
*freed, last = [torch.ones(1_000_000) for _ in range(50)]  # the end of the heap is always returned
del freed
kept = resident_memory() - before
release_freed_memory()
print(kept, resident_memory() - before)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    kept, released = map(int, output.split())
    assert kept > 190_000_000
    assert released < 20_000_000
