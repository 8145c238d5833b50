"""Where metrics go: `metrics.jsonl` always, wandb on request."""

import json
import logging
import netrc
import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

from nmt.config import Config, TrackingBackend, to_plain
from nmt.errors import UserError
from nmt.files import atomic_path, writing

logger = logging.getLogger(__name__)

METRICS_FILE = "metrics.jsonl"

Metrics = dict[str, float | int]


class Tracker:
    """Writes one object a record to `metrics.jsonl`, and the same to wandb where that is asked for.

    Args:
        config: the experiment.
        folder: the run's folder.
        run_id: wandb's id of the run; the same id continues its charts.
        last_update: records after this update are dropped: a continued run writes them again.
        validation_due: the validation of that update is dropped, too.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        run_id: str,
        last_update: int,
        validation_due: bool = False,
    ) -> None:
        self._path = folder / METRICS_FILE
        drop_later_records(self._path, last_update, validation_due)
        with writing(self._path):
            # Without a buffer: what could not be written must not be tried again at the end.
            self._stream = self._path.open("ab", buffering=0)
        self._wandb: Any = None
        if config.tracking.backend is TrackingBackend.wandb:
            self._wandb = _start_wandb(config, folder, run_id)

    def log(self, update: int, metrics: Metrics) -> None:
        """Write one record."""
        with writing(self._path):
            line = (json.dumps({"update": update, **metrics}) + "\n").encode()
            while line:
                line = line[self._stream.write(line) :]
        if self._wandb is not None:
            self._wandb.log({"update": update, **metrics})

    def flush(self) -> None:
        """Bring the records to the disk."""
        with writing(self._path):
            os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Write out what is left."""
        self._stream.close()
        if self._wandb is not None:
            self._wandb.finish()


def drop_later_records(path: Path, last_update: int, validation_due: bool = False) -> None:
    """Take away what a continued run will write again; and half a line that a kill has left.

    Args:
        path: a file of one JSON object a line, each with `update`.
        last_update: records after it are dropped.
        validation_due: the validation of that update, too.
    """
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
        return False  # the half line of a killed run
    if not line.endswith(b"\n"):
        return False
    return update < last_update or (
        update == last_update and not (validation_due and "valid/loss" in record)
    )


def _start_wandb(config: Config, folder: Path, run_id: str) -> Any:
    try:
        import wandb  # noqa: PLC0415 - it takes a second to import, and only this path needs it
    except ImportError:
        raise UserError("tracking=wandb needs the package: pip install wandb") from None
    mode: Literal["online", "offline"] = "online" if _logged_in_to_wandb() else "offline"
    if mode == "offline":
        logger.info("wandb: nobody is logged in; kept offline below %s", folder / "wandb")
    run = wandb.init(
        project=config.tracking.project,
        name=config.run.name,
        id=run_id,
        resume="allow",
        dir=str(folder),
        config=to_plain(config),
        mode=mode,
        settings=wandb.Settings(silent=True),
    )
    # Charts go by optimizer updates and not by wandb's count of calls.
    run.define_metric("update")
    run.define_metric("*", step_metric="update")
    return run


def _logged_in_to_wandb() -> bool:
    """Whether `wandb login` or the environment has left a key."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    server = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc().authenticators(server) is not None
    except (OSError, netrc.NetrcParseError):
        return False
