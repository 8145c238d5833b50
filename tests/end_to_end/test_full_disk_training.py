"""Training on full, failing and read-only disks: no checkpoint is lost."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import DiskError
from nmt.training.checkpoint import CheckpointStore
from tests.runs import assert_same, last_state, metrics, resumed_config, run
from tests.small_disk import in_a_process, needs_mounts, remount, small_disk, used_bytes

# The first file that does not fit on a disk of so many kilobytes.
SIZES = {16: "update_0000005", 256: "update_0000010", 640: "model"}


def error_of(config: Any, corpus: str) -> DiskError | None:
    """Train; return the disk error, if there is one."""
    try:
        run(config, Path(corpus))
    except DiskError as error:
        return error
    return None


def outputs_of(config: Any) -> Any:
    """Return all outputs of a complete run, without times."""
    folder = config.run_folder
    names = ("checkpoints/update_0000010/weights.safetensors", "model/weights.safetensors")
    return (
        metrics(config),
        last_state(config),
        [(folder / name).read_bytes() for name in names],
        (folder / "evaluation" / "test" / "hypotheses.txt").read_bytes(),
        sorted(path.name for path in folder.rglob("*")),
    )


def check_continued(config: Any, corpus: str, expected: Any) -> None:
    """Check that the same command now completes the run, and has the expected outputs."""
    assert error_of(config, corpus) is None
    for one, other in zip(outputs_of(config), expected, strict=True):
        assert_same(one, other)


def complete_run(work: str, corpus: str) -> tuple[Any, Any]:
    """Return a configuration and the outputs of its run on a disk without errors."""
    config = resumed_config(Path(work) / "whole")
    assert error_of(config, corpus) is None
    return config, outputs_of(config)


def newest_complete(config: Any) -> int:
    """Verify all checkpoints and return the update of the newest one."""
    store = CheckpointStore(config.run_folder / "checkpoints", 5, 2)
    for update in store.updates():
        store.verify(update)
    return max(store.updates(), default=0)


def check_small_disks(corpus: str, work: str) -> None:
    config, expected = complete_run(work, corpus)
    disk = Path(work) / "disk"
    for kilobytes, name in SIZES.items():
        with small_disk(disk, 1024 * kilobytes):
            config = replace(config, run=replace(config.run, outputs=str(disk)))
            error = error_of(config, corpus)
            assert error is not None
            assert error.path.name == name
            assert "cannot be written: no space left on device" in str(error)
            before = newest_complete(config)
            # The reported number of bytes is sufficient for that file.
            remount(disk, f"size={used_bytes(disk) + (error.needed or 0) + 8192}")
            again = error_of(config, corpus)
            assert again is None or again.path != error.path, f"{error} / {again}"
            remount(disk, "size=10m")
            assert newest_complete(config) >= before
            check_continued(config, corpus, expected)


@contextmanager
def limited_files(num_bytes: int) -> Iterator[None]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    remount(disk, "ro")
    yield
    remount(disk, "rw")


@contextmanager
def failing_disk(after: int) -> Iterator[None]:
    """Simulate a disk that fails after `after` flushes."""
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


def check_other_errors(corpus: str, work: str) -> None:
    config, expected = complete_run(work, corpus)
    disk = Path(work) / "disk"

    def check(failure: AbstractContextManager[None], reason: str) -> None:
        nonlocal config
        config = replace(config, run=replace(config.run, outputs=str(disk), name=reason[:4]))
        with failure:
            error = error_of(config, corpus)
        assert f"cannot be written: {reason}" in str(error)
        newest_complete(config)
        check_continued(config, corpus, expected)

    with small_disk(disk, 10_000_000):
        check(limited_files(40_000), "file too large")
        check(failing_disk(14), "input/output error")
        check(read_only(disk), "read-only file system")


@needs_mounts
@pytest.mark.slow
@pytest.mark.timeout(300)  # about ten short trainings
@pytest.mark.parametrize("check", [check_small_disks, check_other_errors])
def test_training(check: Callable[[str, str], None], digit_corpus: Path, tmp_path: Path) -> None:
    in_a_process(check, digit_corpus, tmp_path, mounts=True)
