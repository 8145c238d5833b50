"""Tracking with trackio, in a database on this machine."""

import logging
import os
import sqlite3
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

from nmt.config import Config, flattened, to_plain
from nmt.tracking.names import group_name, run_label
from nmt.tracking.tracker import Record, Tracker, converted

logger = logging.getLogger(__name__)


class TrackioTracker(Tracker):
    """Writes to trackio's database in `<outputs>/trackio`, or in the folder TRACKIO_DIR.

    The same `run_id` continues the charts of a run. Records after `last_update` are dropped,
    because a resumed run writes them again.
    """

    def __init__(self, config: Config, run_id: str, last_update: int) -> None:
        folder = str(Path(config.run.outputs).absolute() / "trackio")
        folder = os.environ.setdefault("TRACKIO_DIR", folder)
        import trackio  # noqa: PLC0415 - an extra
        from trackio.cpu import cpu_available  # noqa: PLC0415
        from trackio.gpu import gpu_available  # noqa: PLC0415
        from trackio.run import Run  # noqa: PLC0415
        from trackio.sqlite_storage import SQLiteStorage  # noqa: PLC0415

        class LocalRun(Run):  # type: ignore[misc]
            """A run that does not ask the Hugging Face hub for the name of the user."""

            def _get_username(self) -> None:
                return None

        self._trackio: Any = trackio
        self._failure = ""
        # By default, trackio reports an error by a warning, sometimes in its thread, and continues.
        trackio.run._emit_nonfatal_warning = self._fail
        project = config.tracking.project
        _drop_later_records(SQLiteStorage.get_project_db_path(project), run_id, last_update)
        # `trackio.init` would send records to a server if environment variables name one, and it
        # would find a run by its name, which several runs may have.
        with redirect_stdout(StringIO()):  # trackio prints messages
            self._run: Any = LocalRun(
                url=None,
                client=None,
                project=project,
                name=run_label(config),
                run_id=run_id,
                group=group_name(config),
                config=flattened(to_plain(config)),
                auto_log_cpu=cpu_available(),
                auto_log_gpu=gpu_available(),
            )
        command = f"TRACKIO_DIR={quote(folder)} trackio show --project {quote(project)}"
        logger.info(f"trackio: to show the metrics: {command}")

    def log(self, update: int, record: Record) -> None:
        """Add a record; RuntimeError if trackio could not write this one or an earlier one."""
        self._run.log(converted(record, self._trackio), step=update)
        if self._failure:
            raise RuntimeError(self._failure)

    def _fail(self, message: str, *_arguments: Any, **_options: Any) -> None:
        self._failure = self._failure or message

    def alert(self, update: int, title: str, text: str) -> None:
        """Add an alert."""
        with redirect_stdout(StringIO()):  # trackio prints messages
            self._run.alert(title, text, step=update)

    def flush(self) -> None:
        """Write the records that wait for trackio's thread."""
        with self._run._client_lock:
            self._run._flush_queues_inline()

    def close(self, has_failed: bool = False) -> None:  # noqa: ARG002 - trackio has no status
        """End the run."""
        with redirect_stdout(StringIO()):  # trackio prints messages
            self._run.finish()


def _drop_later_records(database: Path, run_id: str, last_update: int) -> None:
    if database.is_file():
        with closing(sqlite3.connect(database)) as connection, connection:
            for table in ("metrics", "alerts"):
                where = "run_id = ? AND step > ?"
                connection.execute(f"DELETE FROM {table} WHERE {where}", (run_id, last_update))
