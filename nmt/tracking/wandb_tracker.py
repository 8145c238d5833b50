"""Tracking with Weights & Biases, online or offline."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from nmt.base import layout
from nmt.base.errors import first_line
from nmt.base.files import write_texts
from nmt.base.system import commit
from nmt.config import Config, flattened, to_plain
from nmt.run_folder import Run
from nmt.tracking.names import group_name, is_sweep, project_name, run_label
from nmt.tracking.tracker import CompletedRun, Picture, Record, Table, Tracker, Validation

logger = logging.getLogger(__name__)

# Maximum delay of a run, at its start and at its end, by a server that does not answer. The upload
# of artifacts has a limit of its own.
_SECONDS_TO_START = 6.0
_SECONDS_TO_FINISH = 3.0

_BEST = {"valid/loss": "min", "valid/perplexity": "min", "valid/bleu": "max", "train/loss": "min"}


class WandbTracker(Tracker):
    """Sends everything to wandb, or stores it in the run folder for `wandb sync`.

    The same `run_id` continues the charts of a run, after `last_update`.
    """

    def __init__(self, config: Config, run_id: str, last_update: int = 0) -> None:
        # Unless silent, wandb asks for a missing API key.
        os.environ.setdefault("WANDB_SILENT", "true")
        # Error reports to wandb would delay the exit when the server does not answer.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        # Keep artifacts and tables that wait for their upload out of the home folder.
        os.environ.setdefault("WANDB_DATA_DIR", str(Path(config.run.outputs).absolute() / "wandb"))
        import wandb  # noqa: PLC0415 - takes a second to import

        self._wandb: Any = wandb
        settings = config.tracking.wandb
        start = partial(
            wandb.init,
            project=project_name(settings.project),
            # wandb reads the variables of what is None.
            entity=settings.entity or None,
            tags=settings.tags or None,
            notes=settings.notes or None,
            name=run_label(config),
            group=group_name(config),
            job_type="sweep" if is_sweep(config) else "train",
            id=run_id,
            resume="allow",
            dir=str(config.run_folder),
            config={**flattened(to_plain(config)), "commit": commit()},
            settings=wandb.Settings(
                silent=True,
                reinit="create_new",  # not the open run of an earlier tracker
                disable_git=True,  # the address of a remote repository may contain a token
                x_disable_meta=True,  # it includes all SLURM variables, such as SLURM_JWT, a token
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
            wandb.teardown()
            mode = "offline"
            self._run = start(mode=mode)
            logger.warning(f"wandb: metrics are recorded offline: {first_line(error)}")
        # Hooks of wandb would send a message at each import, even after its service has ended.
        self._run._unregister_telemetry_import_hooks(run_id)
        # The horizontal axis is the update, not wandb's step; target tokens can be chosen instead.
        for axis in ("update", "train/target_tokens"):
            self._run.define_metric(axis)
        self._run.define_metric("*", step_metric="update")
        for metric, best in _BEST.items():
            self._run.define_metric(metric, step_metric="update", summary=f"{best},last")
        self._mode = mode
        self._upload_seconds = settings.upload_seconds
        self._last_update = last_update
        # The file has the last update at `close`. No record up to this update can be lost.
        self._stored = config.run_folder / "wandb" / "last_update"
        if mode == "offline":
            self._log_sync()
            self._repeat_lost(Run(config.run_folder).records)

    def _repeat_lost(self, records: Sequence[Record]) -> None:
        """Send again the records after the last `close`, up to `last_update`.

        If a run is killed, the records that wandb's service has buffered are lost.
        """
        stored = int(self._stored.read_text()) if self._stored.is_file() else 0
        for record in records:
            if stored < record["update"] <= self._last_update:
                self._run.log(record)

    def log(self, update: int, record: Record) -> None:
        """Send a record."""
        self._run.log({"update": update, **self._converted(record)})
        self._last_update = update

    def _converted(self, record: Record) -> dict[str, Any]:
        """Convert tables and pictures to the classes of wandb."""

        def convert(value: Any) -> Any:
            match value:
                case Table(columns, rows):
                    return self._wandb.Table(columns=columns, data=rows)
                case Picture(caption, pixels):
                    return self._wandb.Image(pixels, caption=caption)
            return value

        return {key: convert(value) for key, value in record.items()}

    def validation(self, update: int, validation: Validation) -> None:
        """Send a validation with the target tokens so far, the other horizontal axis."""
        tokens = {"train/target_tokens": validation.target_tokens}
        self.log(update, {**tokens, **validation.metrics, **validation.samples})

    def alert(self, update: int, title: str, text: str) -> None:
        """Send an alert, which wandb forwards as set up by the user."""
        self._run.alert(title, f"update {update:,}: {text}", level="WARN")

    def completed(self, run: CompletedRun) -> None:
        """Send the scores and the report, and the corpus files and the model as artifacts."""
        record: dict[str, Any] = {"test/scores": run.scores}
        report = run.folder / layout.REPORT_FILE
        if report.is_file():
            record["report"] = self._wandb.Html(report.read_text(encoding="utf-8"), inject=False)
        self.log(run.result["updates"], record)
        self._run.summary.update(run.metrics)
        if self._mode != "disabled":
            self._log_artifacts(run)

    def _log_artifacts(self, run: CompletedRun) -> None:
        corpus = self._wandb.Artifact(run.corpus.name, "corpus")
        for name in (layout.MANIFEST_FILE, layout.REPORT_FILE):
            _add(corpus, run.corpus / name)
        # `use_artifact` needs the server, and waits for it without limit.
        self._run._log_artifact(corpus, is_user_created=True, use_after_commit=True)
        model = self._wandb.Artifact(f"model-{self._run.id}", "model", metadata=run.metrics)
        model.add_dir(str(run.folder / layout.MODEL_FOLDER), policy="immutable")
        _add(model, run.folder / layout.REPORT_FILE)
        self._run.log_artifact(model)
        if self._mode == "online":
            try:
                for artifact in (corpus, model):
                    artifact.wait(self._upload_seconds)
            except Exception as error:  # wandb raises errors of many libraries
                logger.warning(
                    f"wandb: the corpus files or the model are not uploaded: {first_line(error)}"
                )
                self._log_sync()

    def close(self, has_failed: bool = False) -> None:
        """Finish wandb's run."""
        self._run.finish(exit_code=int(has_failed))
        if self._mode != "disabled":
            write_texts({self._stored: str(self._last_update)})

    def abandon(self, has_no_answer: bool) -> None:
        """Mute wandb; kill its service if it does not answer: wandb would wait for it at exit."""
        # The failure is already reported. On a full disk, wandb may be unable to write messages.
        messages = logging.getLogger("wandb")
        messages.handlers, messages.propagate = [logging.NullHandler()], False
        if not has_no_answer:
            return
        with suppress(Exception):  # wandb raises errors of many libraries
            self._wandb.setup()._connection._proc._process.kill()
            self._wandb.teardown()

    def _log_sync(self) -> None:
        folder = Path(self._run.settings.sync_dir)
        if self._mode == "offline":
            folder = folder.parent  # has a folder for each start of the run, uploaded in order
        logger.info(f"wandb: to upload the metrics: wandb sync {quote(str(folder))}")


def _add(artifact: Any, path: Path) -> None:
    """Add a file, if it exists, to an artifact; `immutable` means that wandb makes no copy."""
    if path.is_file():
        artifact.add_file(str(path), policy="immutable")
