from pathlib import Path

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from nmt.tracking.tensorboard_tracker import TensorboardTracker, markdown_table
from nmt.tracking.trackers import OptionalTrackers
from tests.support import tiny_config


def test_a_full_disk_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = tiny_config(tmp_path)
    config.run_folder.mkdir(parents=True)
    tracker = TensorboardTracker(config, 0)
    optional = OptionalTrackers({"tensorboard": lambda: tracker}, lambda: None)  # type: ignore
    optional.log(1, {"train/loss": 1.0})
    with Path("/dev/full").open("wb", buffering=0) as full:
        tracker._records = RecordWriter(full)
        for update in (2, 3):
            optional.log(update, {"train/loss": 1.0})
    optional.close()
    [message] = caplog.messages
    assert message.startswith("tensorboard: nothing more is recorded: [Errno 28] No space left")


def test_any_text_is_a_cell_of_a_table() -> None:
    table = markdown_table(["text"], [["a|b\n<b>*c*"], [1.234], [None]])
    lines = table.split("\n")
    assert len(lines) == 5
    assert lines[2] == "| a&#124;b &lt;b&gt;&#42;c&#42; |"
    assert lines[3:] == ["| 1.23 |", "|  |"]
