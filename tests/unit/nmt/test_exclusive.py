import threading
from pathlib import Path

from nmt.files import exclusive


def test_the_second_writer_waits_and_says_so(tmp_path: Path) -> None:
    lock, events = tmp_path / "a" / "lock", []
    waiting = threading.Event()

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


def test_the_lock_is_free_after_an_error(tmp_path: Path) -> None:
    try:
        with exclusive(tmp_path / "lock", lambda: None):
            raise ValueError
    except ValueError:
        pass
    waited = []
    with exclusive(tmp_path / "lock", lambda: waited.append(1)):
        assert not waited
