from pathlib import Path

import pytest

from nmt.tracking.trackers import OptionalTrackers
from nmt.tracking.trackio_tracker import TrackioTracker
from tests.support import tiny_config


def test_what_trackio_cannot_write_costs_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    tracker = TrackioTracker(tiny_config(tmp_path), "id", 0)
    optional = OptionalTrackers({"trackio": lambda: tracker}, lambda: None)  # type: ignore
    optional.log(1, {"train/loss": 1.0})

    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(tracker._run, "_ensure_sender_alive", fail)
    for update in (2, 3):
        optional.log(update, {"train/loss": 1.0})
    optional.close()
    [message] = caplog.messages
    assert message.startswith("trackio: nothing more is recorded: ")
    assert message.endswith("disk full")
