"""Tracking with trackio, in a database on this machine."""

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

from nmt.config import Config, flattened, to_plain
from nmt.tracking.names import group_name, run_label
from nmt.tracking.tracker import SCORE_COLUMNS, SENTENCE_COLUMNS, CompletedRun, Tracker, Validation

logger = logging.getLogger(__name__)


class TrackioTracker(Tracker):
    """Writes to trackio's database in `<outputs>/trackio`, or in the folder TRACKIO_DIR.

    Args:
        config: the experiment.
        run_id: the same id continues the charts of a run.
        last_update: drop records after this update, which a resumed run writes again.
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
        # By default, trackio prints a warning, sometimes from its thread, and continues.
        trackio.run._emit_nonfatal_warning = self._fail
        project = config.tracking.project
        _drop_later_records(SQLiteStorage.get_project_db_path(project), run_id, last_update)
        # `trackio.init` would send records to a server if environment variables name one, and it
        # would find a run by its name, which several runs may have.
        with _silent():
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
        shown = f"TRACKIO_DIR={quote(str(folder))} trackio show --project {quote(project)}"
        logger.info(f"trackio: {shown}")

    def log(self, update: int, metrics: Mapping[str, Any]) -> None:
        """Add a record; RuntimeError if trackio could not write this one or an earlier one."""
        self._run.log(dict(metrics), step=update)
        if self._failure:
            raise RuntimeError(self._failure)

    def _fail(self, message: str, *_arguments: Any, **_options: Any) -> None:
        self._failure = self._failure or message

    def validation(self, update: int, validation: Validation) -> None:
        """Add a record with a table of sentences and the pictures."""
        record: dict[str, Any] = {**validation.metrics}
        rows = [sentence.row for sentence in validation.sentences]
        record["translations/sentences"] = self._trackio.Table(SENTENCE_COLUMNS, rows)
        for number, picture in enumerate(validation.pictures, start=1):
            image = self._trackio.Image(picture.pixels, caption=picture.caption)
            record[f"translations/attention_{number}"] = image
        self.log(update, record)

    def alert(self, update: int, title: str, text: str) -> None:
        """Add an alert."""
        with _silent():
            self._run.alert(title, text, step=update)

    def completed(self, run: CompletedRun) -> None:
        """Add the scores."""
        table = self._trackio.Table(SCORE_COLUMNS, run.scores)
        self.log(run.result["updates"], {**run.metrics, "test/scores": table})

    def flush(self) -> None:
        """Write the records that wait for trackio's thread."""
        with self._run._client_lock:
            self._run._flush_queues_inline()

    def close(self, has_failed: bool = False) -> None:  # noqa: ARG002 - it has no status
        """End the run."""
        with _silent():
            self._run.finish()


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress what trackio prints on stdout."""
    with redirect_stdout(StringIO()):
        yield


def _drop_later_records(database: Path, run_id: str, last_update: int) -> None:
    if database.is_file():
        with closing(sqlite3.connect(database)) as connection, connection:
            for table in ("metrics", "alerts"):
                where = "run_id = ? AND step > ?"
                connection.execute(f"DELETE FROM {table} WHERE {where}", (run_id, last_update))
