"""Optional trackers; their errors never abort training."""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from nmt.base.errors import UserError, first_line
from nmt.base.system import require_package
from nmt.config import Config, TrackingConfig
from nmt.tracking.names import project_name
from nmt.tracking.samples import ValidationSamples
from nmt.tracking.tensorboard_tracker import TensorboardTracker
from nmt.tracking.tracker import CompletedRun, Record, Tracker, Validation
from nmt.tracking.wandb_tracker import WandbTracker

logger = logging.getLogger(__name__)

_MAX_SECONDS = 60.0
"""Time limit of a call of a tracker, without the time for uploads."""

_REFUSED_BY_WANDB = frozenset("/\\#?%:")  # characters in names of projects
_MAX_PROJECT = 128  # characters that wandb accepts

OpenTracker = Callable[[], Tracker]
Select = Callable[[], ValidationSamples]


def chosen(config: TrackingConfig) -> list[str]:
    """Return the names of the trackers that a configuration asks for.

    These are also the names of their libraries, presets and keys.
    """
    used = {"wandb": config.wandb.enabled, "tensorboard": config.tensorboard}
    return [name for name in used if used[name]]


def check_trackers(config: TrackingConfig) -> None:
    """Raise a UserError if a library is missing, or the name of the project is not valid."""
    for name in chosen(config):
        require_package(f"tracking={name}", name, "tracking")
    project = project_name(config.wandb.project)
    if config.wandb.enabled and (wrong := sorted(_REFUSED_BY_WANDB.intersection(project))):
        raise UserError(
            f"tracking.wandb.project={project} contains {' '.join(wrong)}, which wandb does not"
            " accept; choose another name"
        )
    if config.wandb.enabled and len(project) > _MAX_PROJECT:
        raise UserError(
            f"tracking.wandb.project has {len(project)} characters; give at most {_MAX_PROJECT}"
        )


def _call(function: Callable[[], Any], seconds: float) -> Any:
    """Call a function and wait for its result; TimeoutError if it takes too long.

    The function runs in a daemon thread, so a call that does not return cannot stop a run.
    """
    result: Future[Any] = Future()

    def work() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # raised in the thread that waits
            result.set_exception(error)

    Thread(target=work, daemon=True).start()
    try:
        return result.result(seconds)
    except TimeoutError:
        if result.done():  # raised by the function
            raise
        raise TimeoutError(f"no answer within {seconds:g} seconds") from None


class OptionalTrackers(Tracker):
    """Calls several trackers; one that fails or does not answer is reported once and dropped.

    Args:
        openers: functions that open the trackers, by the names that warnings give.
        select: returns the validation sentences that are tracked as tables and pictures.
        upload_seconds: additional time limit of `completed`, which waits for uploads.
    """

    def __init__(
        self, openers: Mapping[str, OpenTracker], select: Select, upload_seconds: float = 0.0
    ) -> None:
        self._trackers: dict[str, Tracker] = {}
        self._upload_seconds = upload_seconds
        for name, opener in openers.items():
            try:
                self._trackers[name] = _call(opener, _MAX_SECONDS)
            except Exception as error:  # trackers raise errors of many libraries
                logger.warning(f"{name}: nothing is recorded: {first_line(error)}")
        self._samples: ValidationSamples | None = None
        try:
            self._samples = select() if self._trackers else None
        except Exception as error:  # a picture must not end a training
            logger.warning(f"no sentences and pictures are tracked: {first_line(error)}")

    def log(self, update: int, record: Record) -> None:
        """Log a record to each tracker."""
        self._each(lambda tracker: tracker.log(update, record))

    def validation(self, update: int, validation: Validation) -> None:
        """Log a validation with its sentences and pictures to each tracker."""
        if self._samples and self._trackers:
            try:
                samples = self._samples.record(validation.hypotheses)
                validation = replace(validation, samples=samples)
            except Exception as error:  # a picture must not end a training
                logger.warning(f"no more sentences and pictures are tracked: {first_line(error)}")
                self._samples = None
        self._each(lambda tracker: tracker.validation(update, validation))

    def alert(self, update: int, title: str, text: str) -> None:
        """Alert through each tracker."""
        self._each(lambda tracker: tracker.alert(update, title, text))

    def completed(self, run: CompletedRun) -> None:
        """Log the results to each tracker."""
        self._each(lambda tracker: tracker.completed(run), self._upload_seconds)

    def flush(self) -> None:
        """Flush each tracker."""
        self._each(lambda tracker: tracker.flush())

    def close(self, has_failed: bool = False) -> None:
        """Close each tracker."""
        self._each(lambda tracker: tracker.close(has_failed))
        self._trackers.clear()

    def _each(self, call: Callable[[Tracker], None], more_seconds: float = 0.0) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                _call(partial(call, tracker), _MAX_SECONDS + more_seconds)
            except Exception as error:  # trackers raise errors of many libraries
                logger.warning(f"{name}: nothing more is recorded: {first_line(error)}")
                del self._trackers[name]
                tracker.abandon(isinstance(error, TimeoutError | ConnectionError))


def open_trackers(config: Config, run_id: str, last_update: int, select: Select) -> Tracker:
    """Open the trackers of a run that starts or continues after `last_update`."""
    openers: dict[str, OpenTracker] = {
        "wandb": lambda: WandbTracker(config, run_id, last_update),
        "tensorboard": lambda: TensorboardTracker(config, last_update),
    }
    used = {name: openers[name] for name in chosen(config.tracking)}
    # Two artifacts are uploaded, the corpus and the model.
    return OptionalTrackers(used, select, 2 * config.tracking.wandb.upload_seconds)
