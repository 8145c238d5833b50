"""The tracker that every run has: `metrics.jsonl`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nmt.base.files import append_text, atomic_path, flush
from nmt.run_folder import parse_record
from nmt.tracking.tracker import Record, Tracker


class FileTracker(Tracker):
    """Appends one JSON object per record to a file, from which it first drops later records."""

    def __init__(self, path: Path, last_update: int, validation_due: bool = False) -> None:
        self.path = path
        drop_later_records(path, last_update, validation_due)
        append_text(path, "")  # creates the file

    def log(self, update: int, record: Record) -> None:
        """Append a record, which has only numbers."""
        append_text(self.path, json.dumps({"update": update, **record}) + "\n")

    def last_record(self) -> dict[str, Any]:
        """Return the last record, with its key `update`; empty if there is none."""
        lines = self.path.read_bytes().splitlines()
        return dict(json.loads(lines[-1])) if lines else {}

    def flush(self) -> None:
        """Flush the file to disk."""
        flush(self.path)


def complete_records(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of a file and their records, without a line that a kill has cut short."""
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        record = parse_record(line)
        if record is not None and line.endswith(b"\n"):
            yield line, record


def drop_later_records(path: Path, last_update: int, validation_due: bool = False) -> None:
    """Drop the records that a resumed run writes again, and an incomplete last line.

    Such a run repeats the updates after `last_update` and, if `validation_due`, the validation of
    `last_update`.
    """

    def is_kept(record: dict[str, Any]) -> bool:
        update = int(record["update"])
        is_repeated = validation_due and update == last_update and "valid/loss" in record
        return update <= last_update and not is_repeated

    kept = b"".join(line for line, record in complete_records(path) if is_kept(record))
    if path.exists() and len(kept) < path.stat().st_size:
        with atomic_path(path) as temporary:
            temporary.write_bytes(kept)
