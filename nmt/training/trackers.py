"""Trackers receive the metrics of a run: `metrics.jsonl` always, wandb on request."""

import json
import logging
import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, first_line
from nmt.base.files import atomic_path, writing
from nmt.base.layout import METRICS_FILE
from nmt.config import Config, TrackingBackend, to_plain

logger = logging.getLogger(__name__)

# A server that does not answer delays a run by at most this long at each end.
_SECONDS_TO_START = 6.0
_SECONDS_TO_FINISH = 3.0


class FileTracker:
    """Appends one JSON object per record to a file.

    Args:
        path: the file.
        last_update: drop records after this update, which a resumed run writes again.
        validation_due: drop the validation of that update, too.
    """

    def __init__(self, path: Path, last_update: int, validation_due: bool = False) -> None:
        self._path = path
        drop_later_records(path, last_update, validation_due)
        with writing(path):
            # Unbuffered: a failed write must not be repeated when the file is closed.
            self._stream = path.open("ab", buffering=0)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Append a record."""
        with writing(self._path):
            line = (json.dumps({"update": update, **metrics}) + "\n").encode()
            while line:
                line = line[self._stream.write(line) :]

    def flush(self) -> None:
        """Flush the file to disk."""
        with writing(self._path):
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


class WandbTracker:
    """Sends metrics to wandb. A failure costs one warning and never stops training.

    Args:
        config: the experiment.
        run_id: the same id continues the charts of a run.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self, config: Config, run_id: str) -> None:
        # Otherwise its telemetry delays the exit when the server does not answer.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        try:
            import wandb  # noqa: PLC0415 - takes a second to import
        except ImportError:
            raise UserError("tracking=wandb needs the package: pip install wandb") from None
        self._run: Any = None
        mode: Any = os.environ.get("WANDB_MODE") or ("online" if _has_wandb_key() else "offline")
        options: dict[str, Any] = {
            "project": config.tracking.project,
            "name": config.run.name,
            "id": run_id,
            "resume": "allow",
            "dir": str(config.run_folder),
            "config": to_plain(config),
            "settings": wandb.Settings(
                silent=True,
                init_timeout=_SECONDS_TO_START,
                login_timeout=_SECONDS_TO_START,
                finish_timeout=_SECONDS_TO_FINISH,
                finish_timeout_raises=False,
            ),
        }
        try:
            self._run = wandb.init(mode=mode, **options)
        except Exception as error:  # wandb raises errors of many libraries
            logger.warning("wandb: %s; metrics are recorded offline", first_line(error))
            wandb.teardown()
            mode = "offline"
            self._run = wandb.init(mode=mode, **options)
        # The horizontal axis is the update, not wandb's own count of calls.
        self._run.define_metric("update")
        self._run.define_metric("*", step_metric="update")
        if mode == "offline":
            folder = self._run.settings.sync_dir
            logger.info("wandb: recording offline; to upload: wandb sync %s", folder)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Send a record."""
        if self._run is None:
            return
        try:
            self._run.log({"update": update, **metrics})
        except Exception as error:  # wandb raises errors of many libraries
            logger.warning("wandb: %s; no more metrics are sent", first_line(error))
            self._run = None

    def flush(self) -> None:
        """Do nothing: wandb has its own files."""

    def close(self) -> None:
        """Finish wandb's run."""
        if self._run is not None:
            try:
                self._run.finish()
            except Exception as error:
                logger.warning("wandb: %s", first_line(error))


def open_trackers(
    config: Config, run_id: str, last_update: int, validation_due: bool = False
) -> list[FileTracker | WandbTracker]:
    """The trackers of a run; for the arguments see the classes."""
    path = config.run_folder / METRICS_FILE
    trackers: list[FileTracker | WandbTracker] = [FileTracker(path, last_update, validation_due)]
    if config.tracking.backend is TrackingBackend.wandb:
        trackers.append(WandbTracker(config, run_id))
    return trackers


def drop_later_records(path: Path, last_update: int, validation_due: bool = False) -> None:
    """Drop the records that a resumed run writes again, and an incomplete last line."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if _is_kept(line, last_update, validation_due)]
    if len(kept) < len(lines):
        with atomic_path(path) as temporary:
            temporary.write_bytes(b"".join(kept))


def _is_kept(line: bytes, last_update: int, validation_due: bool) -> bool:
    try:
        record = json.loads(line)
        update = int(record["update"])
    except (ValueError, KeyError, TypeError):
        return False  # the process was killed while writing it
    is_repeated = validation_due and update == last_update and "valid/loss" in record
    return line.endswith(b"\n") and update <= last_update and not is_repeated


def _has_wandb_key() -> bool:
    """Whether `wandb login` or the environment provides a key; wandb would ask for it."""
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").partition("://")[2]
    try:
        in_file = netrc.netrc().authenticators(host.partition(":")[0].partition("/")[0])
    except (OSError, netrc.NetrcParseError):
        in_file = None
    return bool(os.environ.get("WANDB_API_KEY") or in_file)
