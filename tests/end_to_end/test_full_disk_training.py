"""Training on full, failing and read-only disks: no checkpoint is lost."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import DiskError
from nmt.training.checkpoint import CheckpointStore
from tests.runs import assert_same, last_state, metrics, resumed_config, run
from tests.small_disk import in_a_process, needs_mounts, remount, small_disk, used_bytes


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
    disk, met = Path(work) / "disk", set()
    for kilobytes in (4, 16, 128, 256, 384, 512, 640, 768, 1024, 1536, 2048, 4096):
        with small_disk(disk, 1024 * kilobytes):
            config = replace(config, run=replace(config.run, outputs=str(disk)))
            error = error_of(config, corpus)
            if error is None:
                break
            met.add(error.path.name)
            assert "cannot be written: no space left on device" in str(error)
            before = newest_complete(config)
            if error.needed:
                # The reported number of bytes is sufficient for that file.
                remount(disk, f"size={used_bytes(disk) + error.needed + 8192}")
                again = error_of(config, corpus)
                assert again is None or again.path != error.path, f"{error} / {again}"
            remount(disk, "size=10m")
            assert newest_complete(config) >= before
            check_continued(config, corpus, expected)
    else:
        raise AssertionError("no disk was large enough")
    assert {"update_0000005", "update_0000010", "model"} <= met, met


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
    disk, met = Path(work) / "disk", []
    with small_disk(disk, 10_000_000):
        for limit in (100, 1_000, 40_000):  # writes are cut short
            run = replace(config.run, outputs=str(disk), name=f"limit{limit}")
            config = replace(config, run=run)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            error = error_of(config, corpus)
            assert "cannot be written: file too large" in str(error), str(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            met.append(error.path.name if error else "")
            newest_complete(config)
            check_continued(config, corpus, expected)
        assert met == ["environment.json", "config.yaml", "update_0000005"]
        for after in (0, 9, 14, 30):
            config = replace(config, run=replace(config.run, name=f"failing{after}"))
            with failing_disk(after):
                error = error_of(config, corpus)
            assert "cannot be written: input/output error" in str(error)
            newest_complete(config)
            check_continued(config, corpus, expected)
        config = replace(config, run=replace(config.run, name="read_only"))
        remount(disk, "ro")
        assert "cannot be written: read-only file system" in str(error_of(config, corpus))
        remount(disk, "rw")
        check_continued(config, corpus, expected)


@needs_mounts
@pytest.mark.slow
@pytest.mark.timeout(300)  # about thirty short trainings
@pytest.mark.parametrize("check", [check_small_disks, check_other_errors])
def test_training(check: Callable[[str, str], None], digit_corpus: Path, tmp_path: Path) -> None:
    in_a_process(check, digit_corpus, tmp_path, mounts=True)
