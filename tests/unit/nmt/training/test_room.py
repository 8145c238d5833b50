import ctypes
import resource
from pathlib import Path

import pytest
import torch

from nmt.training import room as room_module
from nmt.training.room import give_back_freed, peak_bytes, program_bytes, room_for_training


def test_room_is_shared_by_the_processes_of_a_host() -> None:
    device = torch.device("cpu")
    alone, shared = (room_for_training(device, number) for number in (1, 4))
    own = program_bytes()
    assert own < shared < alone
    assert (alone - own) / (shared - own) == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(("processes", "on_one"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_gpu_is_shared_by_those_that_are_on_it(
    monkeypatch: pytest.MonkeyPatch, processes: int, on_one: int
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60_000, 80_000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 1_000)
    room = room_for_training(torch.device("cuda"), processes)
    assert room == int(0.9 * (60_000 / on_one + 1_000))


@pytest.mark.parametrize(("system", "unit"), [("Linux", 1024), ("Darwin", 1)])
def test_the_peak_is_in_bytes_where_the_kernel_has_no_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, system: str, unit: int
) -> None:
    monkeypatch.setattr(room_module, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(room_module.platform, "system", lambda: system)
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert told <= peak_bytes() < 1.5 * told


def test_freed_memory_below_what_is_in_use_goes_back_to_the_system() -> None:
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
    before = program_bytes()
    give_back_freed()
    assert before - program_bytes() > 0.9 * size * number
    library.free(kept)
