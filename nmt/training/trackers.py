"""Trackers receive the metrics of a run: `metrics.jsonl` always, wandb on request."""

import json
import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, first_line
from nmt.base.files import atomic_path, flush, writing
from nmt.config import Config, to_plain

logger = logging.getLogger(__name__)

# A server that does not answer delays a run by at most this long at each end.
_SECONDS_TO_START = 6.0
_SECONDS_TO_FINISH = 3.0


class Tracker:
    """A destination of metrics; methods that a tracker does not need do nothing."""

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Store or send the metrics of an update."""

    def flush(self) -> None:
        """Write all records to disk, if this tracker has a file."""

    def close(self) -> None:
        """End the run."""


class FileTracker(Tracker):
    """Appends one JSON object per record to a file.

    Args:
        path: the file.
        last_update: drop records after this update, which a resumed run writes again.
        validation_due: drop the validation of that update, too.
    """

    def __init__(self, path: Path, last_update: int, validation_due: bool = False) -> None:
        self.path = path
        drop_later_records(path, last_update, validation_due)
        self._append("")  # creates the file

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Append a record."""
        self._append(json.dumps({"update": update, **metrics}) + "\n")

    def flush(self) -> None:
        """Flush the file to disk."""
        with writing(self.path):
            flush(self.path)

    def _append(self, text: str) -> None:
        # Opened each time: an open file would repeat a write that has failed when it is closed.
        with writing(self.path), self.path.open("a", encoding="utf-8") as out:
            out.write(text)


class WandbTracker(Tracker):
    """Sends metrics to wandb. A failure costs one warning and never stops training.

    Args:
        config: the experiment.
        run_id: the same id continues the charts of a run.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self, config: Config, run_id: str) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")  # it would ask for a missing key
        # Error reports to wandb would delay the exit when the server does not answer.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb  # noqa: PLC0415 - takes a second to import
        except ImportError:
            raise UserError("tracking=wandb needs the package: pip install wandb") from None
        start = partial(
            wandb.init,
            project=config.tracking.project,
            name=config.run.name,
            id=run_id,
            resume="allow",
            dir=str(config.run_folder),
            config=to_plain(config),
            settings=wandb.Settings(
                silent=True,
                init_timeout=_SECONDS_TO_START,
                login_timeout=_SECONDS_TO_START,
                finish_timeout=_SECONDS_TO_FINISH,
                finish_timeout_raises=False,
            ),
        )
        mode: Any = os.environ.get("WANDB_MODE") or "online"
        try:
            self._run: Any = start(mode=mode)
        except Exception as error:  # wandb raises errors of many libraries
            logger.warning(f"wandb: metrics are recorded offline: {first_line(error)}")
            wandb.teardown()
            mode = "offline"
            self._run = start(mode=mode)
        # The horizontal axis is the update, not wandb's step.
        self._run.define_metric("update")
        self._run.define_metric("*", step_metric="update")
        if mode == "offline":
            logger.info(f"wandb: to upload the metrics: wandb sync {self._run.settings.sync_dir}")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send a record."""
        self._call("log", {"update": update, **metrics})

    def close(self) -> None:
        """Finish wandb's run."""
        self._call("finish")

    def _call(self, method: str, *arguments: object) -> None:
        """Call a method of wandb's run, unless one has failed before."""
        try:
            if self._run is not None:
                getattr(self._run, method)(*arguments)
        except Exception as error:  # wandb raises errors of many libraries
            logger.warning(f"wandb: no more metrics are sent: {first_line(error)}")
            self._run = None


def drop_later_records(path: Path, last_update: int, validation_due: bool = False) -> None:
    """Drop the records that a resumed run writes again, and an incomplete last line."""

    def is_kept(line: bytes) -> bool:
        try:
            record = json.loads(line)
            update = int(record["update"])
        except (ValueError, KeyError, TypeError):
            return False  # the process was killed while writing it
        is_repeated = validation_due and update == last_update and "valid/loss" in record
        return line.endswith(b"\n") and update <= last_update and not is_repeated

    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    kept = list(filter(is_kept, lines))
    if len(kept) < len(lines):
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"".join(kept))
