"""Lock files."""

import fcntl
import threading
from pathlib import Path

import pytest

from nmt.base.locks import exclusive


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
