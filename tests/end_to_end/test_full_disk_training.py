"""Full, failing and read-only disks, real ones, under a training: nothing is lost."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.disk_fault import DiskFault
from tests.small_disk import in_a_process, needs_mounts, remount, small_disk, used_bytes

# What takes seconds to import, such as torch, is imported by the functions that need it: they run
# in processes of their own.


def fault_of(config: Any, corpus: str) -> DiskFault | None:
    """Train; returns what the disk refused, if it did."""
    from tests.runs import run  # noqa: PLC0415

    try:
        run(config, Path(corpus))
    except DiskFault as fault:
        return fault
    return None


def what_is_left(config: Any) -> Any:
    """Everything but times that a whole run leaves."""
    from tests.runs import last_state, metrics  # noqa: PLC0415

    folder = config.run_folder
    names = ("checkpoints/update_0000010/weights.safetensors", "model/weights.safetensors")
    return (
        metrics(config),
        last_state(config),
        [(folder / name).read_bytes() for name in names],
        (folder / "evaluation" / "test" / "hypotheses.txt").read_bytes(),
        sorted(path.name for path in folder.rglob("*")),
    )


def check_left(config: Any, expected: Any) -> None:
    from tests.runs import assert_same  # noqa: PLC0415

    found = what_is_left(config)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def whole_run(work: str, corpus: str) -> tuple[Any, Any]:
    """A configuration, and what its run leaves where nothing goes wrong."""
    from tests.runs import resumed_config  # noqa: PLC0415

    config = resumed_config(Path(work) / "whole")
    assert fault_of(config, corpus) is None
    return config, what_is_left(config)


def newest_whole(config: Any) -> int:
    """The newest checkpoint that is whole; nothing that looks like one may be less than that."""
    from nmt.training.checkpoint import CheckpointStore  # noqa: PLC0415

    store = CheckpointStore(config.run_folder / "checkpoints", 5, 2)
    for update in store.updates():
        store.verify(update)
    return max(store.updates(), default=0)


def check_room_that_is_short(corpus: str, work: str) -> None:
    config, expected = whole_run(work, corpus)
    disk, met = Path(work) / "disk", set()
    for kilobytes in (4, 8, 16, 48, 128, 256, 384, 512, 640, 768, 1024, 1536, 2048, 4096):
        with small_disk(disk, 1024 * kilobytes):
            config = replace(config, run=replace(config.run, outputs=str(disk)))
            fault = fault_of(config, corpus)
            if fault is None:
                break
            met.add(fault.path.name)
            assert "cannot be written: no space left on device" in str(fault)
            assert "free there" in str(fault)
            before = newest_whole(config)
            if "about" in str(fault):
                # The room that was asked for is enough for that.
                remount(disk, f"size={used_bytes(disk) + (fault.needed or 0) + 8192}")
                again = fault_of(config, corpus)
                assert again is None or again.path != fault.path, f"{fault} / {again}"
            remount(disk, "size=10m")
            assert newest_whole(config) >= before
            assert fault_of(config, corpus) is None
            check_left(config, expected)
    else:
        raise AssertionError("no disk was large enough")
    assert {"update_0000005", "update_0000010", "model"} <= met, met


@contextmanager
def failing_disk(after: int) -> Iterator[None]:
    """The disk fails from its n-th flush on. Injected: a machine has no disk that fails at will."""
    flush, count = os.fsync, 0

    def failing(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count > after:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(descriptor)

    os.fsync = failing
    try:
        yield
    finally:
        os.fsync = flush


def check_other_faults(corpus: str, work: str) -> None:
    config, expected = whole_run(work, corpus)
    disk, met = Path(work) / "disk", []
    with small_disk(disk, 10_000_000):
        for limit in (100, 1_000, 40_000):  # short writes
            run = replace(config.run, outputs=str(disk), name=f"limit{limit}")
            config = replace(config, run=run)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            fault = fault_of(config, corpus)
            assert "cannot be written: file too large; a file may hold" in str(fault), str(fault)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            met.append(fault.path.name if fault else "")
            newest_whole(config)
            assert fault_of(config, corpus) is None
            check_left(config, expected)
        assert met == ["environment.json", "config.yaml", "update_0000005"]
        for after in (0, 3, 9, 14, 20, 30):
            config = replace(config, run=replace(config.run, name=f"failing{after}"))
            with failing_disk(after):
                fault = fault_of(config, corpus)
            assert "cannot be written: input/output error; " in str(fault)
            newest_whole(config)
            assert fault_of(config, corpus) is None
            check_left(config, expected)
        config = replace(config, run=replace(config.run, name="read_only"))
        remount(disk, "ro")
        assert "cannot be written: read-only file system; " in str(fault_of(config, corpus))
        remount(disk, "rw")
        assert fault_of(config, corpus) is None
        check_left(config, expected)


@needs_mounts
@pytest.mark.slow
@pytest.mark.timeout(300)  # some forty short trainings
@pytest.mark.parametrize("check", [check_room_that_is_short, check_other_faults])
def test_training(check: Callable[[str, str], None], digit_corpus: Path, tmp_path: Path) -> None:
    in_a_process(check, digit_corpus, tmp_path, mounts=True)
