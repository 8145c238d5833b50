"""The trackers that a run has besides `metrics.jsonl`, none of which can stop a training."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from nmt.base.errors import first_line
from nmt.base.system import require_package
from nmt.config import Config, TrackingConfig
from nmt.tracking.samples import ValidationSamples
from nmt.tracking.tensorboard_tracker import TensorboardTracker
from nmt.tracking.tracker import CompletedRun, Tracker, Validation
from nmt.tracking.trackio_tracker import TrackioTracker
from nmt.tracking.wandb_tracker import WandbTracker

logger = logging.getLogger(__name__)

_NAMES = ("wandb", "tensorboard", "trackio")
"""The trackers, named like their libraries, presets and keys."""

OpenTracker = Callable[[], Tracker]
Select = Callable[[], ValidationSamples]


def chosen(config: TrackingConfig) -> list[str]:
    """Return the names of the trackers that a configuration asks for."""
    return [name for name in _NAMES if getattr(config, name)]


def check_installed(config: TrackingConfig) -> None:
    """Raise a UserError if the library of a tracker is missing."""
    for name in chosen(config):
        require_package(f"tracking={name}", name, "tracking")


class OptionalTrackers(Tracker):
    """Calls several trackers; one that raises an exception is reported in a warning and dropped.

    Args:
        openers: open each tracker, by its name for warnings.
        select: creates the selection of sentences and pictures of a validation.
    """

    def __init__(self, openers: Mapping[str, OpenTracker], select: Select) -> None:
        self._trackers: dict[str, Tracker] = {}
        for name, opener in openers.items():
            try:
                self._trackers[name] = opener()
            except Exception as error:  # trackers raise errors of many libraries
                logger.warning(f"{name}: nothing is recorded: {first_line(error)}")
        self._samples: ValidationSamples | None = None
        try:
            self._samples = select() if self._trackers else None
        except Exception as error:  # a picture must not end a training
            logger.warning(f"no sentences and pictures are tracked: {first_line(error)}")

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Log metrics to each tracker."""
        self._each(lambda tracker: tracker.log(update, metrics))

    def validation(self, update: int, validation: Validation) -> None:
        """Log a validation with its sentences and pictures to each tracker."""
        if self._samples and self._trackers:
            try:
                validation = replace(
                    validation,
                    sentences=self._samples.sentences(validation.hypotheses),
                    pictures=self._samples.pictures(validation.hypotheses),
                )
            except Exception as error:  # a picture must not end a training
                logger.warning(f"no more sentences and pictures are tracked: {first_line(error)}")
                self._samples = None
        self._each(lambda tracker: tracker.validation(update, validation))

    def alert(self, update: int, title: str, text: str) -> None:
        """Alert through each tracker."""
        self._each(lambda tracker: tracker.alert(update, title, text))

    def completed(self, run: CompletedRun) -> None:
        """Log the results to each tracker."""
        self._each(lambda tracker: tracker.completed(run))

    def flush(self) -> None:
        """Flush each tracker."""
        self._each(lambda tracker: tracker.flush())

    def close(self, has_failed: bool = False) -> None:
        """Close each tracker."""
        self._each(lambda tracker: tracker.close(has_failed))
        self._trackers.clear()

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:  # trackers raise errors of many libraries
                logger.warning(f"{name}: nothing more is recorded: {first_line(error)}")
                del self._trackers[name]


def open_trackers(config: Config, run_id: str, last_update: int, select: Select) -> Tracker:
    """Open the trackers of a run that starts or continues after `last_update`."""
    openers: dict[str, OpenTracker] = {
        "wandb": lambda: WandbTracker(config, run_id),
        "tensorboard": lambda: TensorboardTracker(config, last_update),
        "trackio": lambda: TrackioTracker(config, run_id, last_update),
    }
    return OptionalTrackers({name: openers[name] for name in chosen(config.tracking)}, select)
