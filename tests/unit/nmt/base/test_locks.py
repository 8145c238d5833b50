"""Lock files."""

import fcntl
import os
import threading
from io import FileIO
from pathlib import Path

import pytest

from nmt.base import locks
from nmt.base.errors import BusyError, UserError
from nmt.base.locks import exclusive, is_locked


def test_a_second_process_waits_for_the_lock(tmp_path: Path) -> None:
    lock, events = tmp_path / "a" / "lock", []
    waiting = threading.Event()
    with pytest.raises(ValueError, match="error"), exclusive(lock, lambda: None):
        raise ValueError("error")  # releases the lock

    def second() -> None:
        with exclusive(lock, waiting.set):
            events.append("second")

    with exclusive(lock, lambda: events.append("first waited")):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(timeout=10)
        events.append("first")
    thread.join(timeout=10)
    assert events == ["first", "second"]


def test_a_process_that_tests_the_lock_does_not_count(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        timer = threading.Timer(0.05, lambda: fcntl.flock(stream, fcntl.LOCK_UN))
        timer.start()
        with exclusive(lock, lambda: pytest.fail("the lock is held")):
            timer.join()


def test_a_lock_file_that_was_removed_before_it_was_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, try_lock = tmp_path / "lock", locks._try_lock

    def removed(stream: FileIO, after: float = 0.0) -> bool:
        monkeypatch.undo()
        lock.unlink()
        return try_lock(stream, after)

    monkeypatch.setattr(locks, "_try_lock", removed)
    with exclusive(lock, BusyError("busy"), is_kept=False):
        assert is_locked(lock)
    assert not lock.exists()


def test_a_link_and_a_pipe_are_no_locks(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        assert not is_locked(tmp_path / name)
        with (
            pytest.raises(UserError, match=f"{name}: is not a regular file"),
            exclusive(tmp_path / name, lambda: None),
        ):
            pass
    assert not (tmp_path / "elsewhere").exists()
