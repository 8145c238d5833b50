"""Search for hyperparameters with Optuna: each run of a sweep is a trial of one study.

The study is a SQLite file in the folder of the sweep. Each run asks for its values when it starts,
so runs in other processes take the trials completed by then into account.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep

from nmt.base.errors import BusyError, UserError
from nmt.base.layout import CONFIG_FILE, PRUNED_FILE, STUDY_FILE
from nmt.base.locks import exclusive
from nmt.base.system import require_package
from nmt.config import Config, leaf_fields
from nmt.evaluation.records import is_complete, read_result
from nmt.training.distributed import FailedProcessesError

Range = IntervalSweep | RangeSweep | ChoiceSweep

_SIGNIFICANT_DIGITS = 3  # of the values that are tried
_SECONDS_TO_WAIT = 60.0  # for the lock of the SQLite file


def trial_values(space: str, run: Path) -> dict[str, Any]:
    """Return the values of the trial whose run folder is `run`, by key.

    A new trial is asked for them. A trial that was interrupted keeps its values, and so does one
    that failed after it had begun: its checkpoints belong to them.

    Raises:
        UserError: `space` is invalid, or Optuna is not installed.
    """
    ranges = parse_space(space)
    optuna = _optuna()
    with exclusive(run.parent / f".{STUDY_FILE}.lock", lambda: None):
        study = _study(run)
        stored = _last_trial(study, run)
        if stored and stored.state is not optuna.trial.TrialState.FAIL:
            trial = optuna.trial.Trial(study, stored._trial_id)
        else:
            if stored and (run / CONFIG_FILE).is_file():
                study.enqueue_trial(stored.params)
            trial = study.ask()
            trial.set_user_attr("run", run.name)
        return {key: _suggest(trial, key, one) for key, one in ranges.items()}


def parse_space(space: str) -> dict[str, Range]:
    """Parse `search.space`: a range of values for each key."""
    ranges: dict[str, Range] = {}
    for override in OverridesParser.create().parse_overrides(space.split()):
        key, value = override.get_key_element(), override.value()
        if key not in leaf_fields(Config):
            raise UserError(f"search.space: {key} is not a key of the configuration")
        if not isinstance(value, IntervalSweep | RangeSweep | ChoiceSweep):
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

    None if the run is not a trial of a search that prunes.
    """
    if not (config.search.trial and config.search.prune):
        return None
    optuna, run = _optuna(), config.run_folder

    def decide(update: int, loss: float) -> bool:
        pruner = optuna.pruners.MedianPruner(n_warmup_steps=config.training.validate_every + 1)
        study = _study(run, pruner)
        stored = _last_trial(study, run)
        trial = optuna.trial.Trial(study, stored._trial_id)
        if update not in stored.intermediate_values:  # a resumed run repeats a validation
            trial.report(loss, update)
        return update < config.training.max_updates and bool(trial.should_prune())

    return decide


@contextmanager
def recorded(run: Path) -> Iterator[None]:
    """Record how the trial of the run folder `run` ends: its validation loss, pruned, or failed.

    A trial that is interrupted, or that another process trains, has not ended.
    """
    try:
        yield
    except BusyError:
        raise
    except (Exception, FailedProcessesError):
        _end_trial(run)
        raise
    _end_trial(run)


def _end_trial(run: Path) -> None:
    study, states = _study(run), _optuna().trial.TrialState
    number = _last_trial(study, run).number
    if is_complete(run):
        study.tell(number, read_result(run)["valid"]["loss"], skip_if_finished=True)
    else:
        state = states.PRUNED if (run / PRUNED_FILE).is_file() else states.FAIL
        study.tell(number, state=state, skip_if_finished=True)


def _suggest(trial: Any, key: str, one: Range) -> Any:
    if isinstance(one, ChoiceSweep):
        return trial.suggest_categorical(key, one.list)
    if isinstance(one, RangeSweep):
        low, end, step = one.start or 0, one.stop or 0, one.step
        is_int = all(isinstance(value, int) for value in (low, end, step))
        last = low + step * int((end - low - step / 1e6) // step)  # the end is exclusive
        suggest = trial.suggest_int if is_int else trial.suggest_float
        return suggest(key, low, last, step=step)
    suggest = trial.suggest_int if isinstance(one.start, int) else trial.suggest_float
    value = suggest(key, one.start, one.end, log="log" in one.tags)
    return value if isinstance(value, int) else float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


def _last_trial(study: Any, run: Path) -> Any:
    """Return the last trial of a run folder, or None if it has none."""
    found = [one for one in study.trials if one.user_attrs.get("run") == run.name]
    return found[-1] if found else None


def _study(run: Path, pruner: Any = None) -> Any:
    optuna = _optuna()
    from sqlalchemy import URL  # noqa: PLC0415 - Optuna depends on it

    path = run.parent / STUDY_FILE
    storage = optuna.storages.RDBStorage(
        URL.create("sqlite", database=str(path)).render_as_string(),
        engine_kwargs={"connect_args": {"timeout": _SECONDS_TO_WAIT}},
    )
    # Each trial asks a new sampler, so each needs a seed of its own.
    sampler = optuna.samplers.TPESampler(seed=zlib.crc32(run.name.encode()))
    return optuna.create_study(
        storage=storage, sampler=sampler, pruner=pruner, study_name="nmt", load_if_exists=True
    )


def _optuna() -> Any:
    require_package("a search", "optuna", "sweeps")
    import optuna  # noqa: PLC0415 - takes a second

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
