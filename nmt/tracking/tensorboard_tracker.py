"""Tracking with TensorBoard, in the run folder."""

import html
import os
import time
from collections.abc import Sequence
from typing import Any

from nmt.config import Config, to_yaml
from nmt.tracking.tracker import Picture, Record, Table, Tracker


class TensorboardTracker(Tracker):
    """Writes an event file, without the thread and the queue of `SummaryWriter`.

    Without them, errors are raised where they can be caught, and records survive a kill. In earlier
    files, TensorBoard ignores records after `last_update`, because a resumed run repeats them.
    """

    def __init__(self, config: Config, last_update: int) -> None:
        from tensorboard.compat.proto import event_pb2  # noqa: PLC0415 - an extra
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415
        from torch.utils.tensorboard import summary  # noqa: PLC0415

        self._event: Any = event_pb2.Event
        self._summary: Any = summary
        folder = config.run_folder / "tensorboard"
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"  # TensorBoard sorts by name
        self._file = (folder / name).open("xb", buffering=0)
        self._records: Any = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        # A run that was killed before its first checkpoint repeats everything.
        first = last_update + 1 if last_update else 0
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(step=first, session_log=start)
        if not last_update:
            self._text("configuration", f"```\n{to_yaml(config)}```", 0)

    def log(self, update: int, record: Record) -> None:
        """Add a point to the curve of each number; add tables and pictures."""
        for name, value in record.items():
            match value:
                case Table(columns, rows):
                    self._text(name, markdown_table(columns, rows), update)
                case Picture(_, pixels):
                    image = self._summary.image(name, pixels, dataformats="HWC")
                    self._write(step=update, summary=image)
                case _:
                    self._write(step=update, summary=self._summary.scalar(name, value))

    def alert(self, update: int, title: str, text: str) -> None:
        """Add a text."""
        self._text(f"alerts/{title}", html.escape(text), update)

    def close(self, has_failed: bool = False) -> None:  # noqa: ARG002 - a file has no status
        """Close the file."""
        self._file.close()

    def _text(self, name: str, text: str, update: int) -> None:
        self._write(step=update, summary=self._summary.text(name, text))

    def _write(self, **values: Any) -> None:
        event = self._event(wall_time=time.time(), **values)
        self._records.write(event.SerializeToString())


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table in which any text is shown as it is."""
    lines = [columns, ["---"] * len(columns), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    escaped = html.escape("" if value is None else " ".join(str(value).split()))
    return "".join(f"&#{ord(c)};" if c in r"\`*_{}[]()#+-.!|~" else c for c in escaped)
