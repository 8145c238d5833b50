"""Search for hyperparameters with Optuna: each run of a sweep is a trial of one study.

The study is a SQLite file in the folder of the sweep. The values of a run are chosen when it
starts, from the results of all trials completed by then, including those of other processes.
"""

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep
from hydra.errors import HydraException

from nmt.base.errors import BusyError, FailedProcessesError, UserError, first_line
from nmt.base.layout import STUDY_FILE
from nmt.base.locks import exclusive
from nmt.base.system import require_package
from nmt.config import Config, leaf_fields
from nmt.run_folder import Run, with_number

logger = logging.getLogger(__name__)

Range = IntervalSweep | RangeSweep | ChoiceSweep

_SIGNIFICANT_DIGITS = 3  # of the values that are tried
_SECONDS_TO_WAIT = 60.0  # for the lock of the SQLite file


def trial_values(space: str, run: Path) -> dict[str, Any]:
    """Return the values of the trial whose run folder is `run`, by key.

    The study chooses values for a new trial, and again for one that failed before its training
    began. Other trials keep theirs even if `space` has changed: their checkpoints depend on them.

    Raises:
        UserError: `space` is invalid, Optuna is not installed, or the study cannot be used.
    """
    ranges = parse_space(space)
    with exclusive(run.parent / f".{STUDY_FILE}.lock", lambda: None), _opened(run) as study:
        distributions = {key: _distribution(key, one, study) for key, one in ranges.items()}
        earlier, optuna = _trials(study, run), _optuna()
        if earlier and earlier[-1].state is not optuna.trial.TrialState.FAIL:
            trial = earlier[-1]
        else:
            # Each trial asks a new sampler, so each needs a seed of its own.
            seed = zlib.crc32(f"{run.name}{len(earlier) or ''}".encode())
            study.sampler = optuna.samplers.TPESampler(seed=seed)
            trial = study.ask(distributions)
            trial.set_user_attr("run", run.name)
        return {key: _rounded(trial.params[key], trial.distributions[key]) for key in trial.params}


def parse_space(space: str) -> dict[str, Range]:
    """Parse `search.space`: a range of values for each key."""
    ranges: dict[str, Range] = {}
    try:
        overrides = OverridesParser.create().parse_overrides(space.split())
    except HydraException as error:
        reason = first_line(error.__cause__ or error)
        raise UserError(f"search.space={space} cannot be read: {reason}") from None
    for override in overrides:
        key, value = override.get_key_element(), override.value()
        if key not in leaf_fields(Config):
            raise UserError(f"search.space: {key} is not a key of the configuration")
        if not isinstance(value, Range):
            raise UserError(
                f"search.space: {override.input_line} is not a range; write for example"
                f" {key}=interval(LOW,HIGH) or {key}=choice(A,B)"
            )
        ranges[key] = value
    if not ranges:
        raise UserError("search.trial has no effect without search.space=KEY=RANGE")
    return ranges


def pruning(config: Config) -> Callable[[int, float], bool] | None:
    """Return a function of update and validation loss that decides whether to prune the trial.

    Return None if the run is not a trial, or if the search does not prune. The function prunes no
    trial whose end the study has already recorded: such a trial was continued on purpose.
    """
    if not (config.search.trial and config.search.prune):
        return None
    if not config.run.folder:
        raise UserError(f"search.trial={config.search.trial} needs --multirun")
    optuna, run = _optuna(), config.run_folder

    def decide(update: int, loss: float) -> bool:
        # The `+ 1` excludes the first validation.
        pruner = optuna.pruners.MedianPruner(n_warmup_steps=config.training.validate_every + 1)
        try:
            with _opened(run, pruner) as study:
                stored = _trials(study, run)[-1]
                if stored.state.is_finished():
                    return False
                trial = optuna.trial.Trial(study, stored._trial_id)
                if update not in stored.intermediate_values:  # a resumed run repeats a validation
                    trial.report(loss, update)
                return update < config.training.max_updates and bool(trial.should_prune())
        except UserError as error:
            # A file that is locked for a while must not end a training of hours.
            logger.warning(f"this validation does not prune the trial: {error}")
            return False

    return decide


@contextmanager
def recorded(run: Path) -> Iterator[None]:
    """Record the end of a run's trial: its lowest validation loss, or that it was pruned or failed.

    A trial has not ended if it was interrupted, if another process trains it, or if it failed after
    its training began: the same command continues it.
    """
    try:
        yield
    except BusyError:
        raise
    except (Exception, FailedProcessesError):
        with suppress(UserError):  # which would hide the first error
            _end_trial(run)
        raise
    _end_trial(run)


def _end_trial(folder: Path) -> None:
    run = Run(folder)
    states = _optuna().trial.TrialState
    with _opened(folder) as study:
        number = _trials(study, folder)[-1].number
        if run.is_complete:
            validations = with_number(run.metrics, "valid/loss")
            lowest = min(record["valid/loss"] for record in validations)
            study.tell(number, lowest, skip_if_finished=True)
        elif run.is_pruned:
            study.tell(number, state=states.PRUNED, skip_if_finished=True)
        elif not run.has_begun:
            study.tell(number, state=states.FAIL, skip_if_finished=True)


def _distribution(key: str, one: Range, study: Any) -> Any:
    """Return Optuna's distribution of a range; UserError if invalid or unlike an earlier range.

    Optuna requires the same kind of range and the same choices in all trials of a study.
    """
    known = _optuna().distributions
    try:
        if isinstance(one, ChoiceSweep):
            found = known.CategoricalDistribution(one.list)
        elif isinstance(one, RangeSweep):
            low, end, step = one.start or 0, one.stop or 0, one.step
            last = low + step * int((end - low - step / 1e6) // step)  # the end is exclusive
            is_int = all(isinstance(value, int) for value in (low, end, step))
            kind = known.IntDistribution if is_int else known.FloatDistribution
            found = kind(low, last, step=step)
        else:
            is_int = isinstance(one.start, int)
            kind = known.IntDistribution if is_int else known.FloatDistribution
            found = kind(one.start, one.end, log="log" in one.tags)
        for trial in study.trials:
            known.check_distribution_compatibility(trial.distributions.get(key, found), found)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise UserError(
            f"search.space: {key}: {first_line(error).rstrip('.')}; correct the range, or choose"
            " another run.name if the search began with another range"
        ) from None
    return found


def _rounded(value: Any, distribution: Any) -> Any:
    """Round a real number to three significant digits; keep choices and values in steps."""
    if isinstance(value, float) and getattr(distribution, "step", 1) is None:
        return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    return value


def _trials(study: Any, run: Path) -> list[Any]:
    """Return the trials of a run folder, oldest first."""
    return [one for one in study.trials if one.user_attrs.get("run") == run.name]


@contextmanager
def _opened(run: Path, pruner: Any = None) -> Iterator[Any]:
    """Open the study of a run; UserError if its file cannot be used."""
    optuna = _optuna()
    from sqlalchemy import URL  # noqa: PLC0415 - Optuna depends on it
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    path = run.parent / STUDY_FILE
    try:
        try:
            storage = optuna.storages.RDBStorage(
                URL.create("sqlite", database=str(path)).render_as_string(),
                engine_kwargs={"connect_args": {"timeout": _SECONDS_TO_WAIT}},
            )
        except RuntimeError as error:  # the file is of another version of Optuna
            raise UserError(f"{path}: {first_line(error)}") from None
        yield optuna.create_study(
            storage=storage, pruner=pruner, study_name="nmt", load_if_exists=True
        )
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        raise UserError(
            f"{path}: the study cannot be used: {first_line(error.__cause__ or error)}; if the"
            " file is damaged, choose another run.name; if not, run the same command again"
        ) from error


def _optuna() -> Any:
    require_package("a search", "optuna", "sweeps")
    import optuna  # noqa: PLC0415 - takes a second

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
