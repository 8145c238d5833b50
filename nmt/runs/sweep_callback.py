"""What a sweep does at its beginning and at its end."""

import multiprocessing
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nmt.base.errors import UserError
from nmt.base.layout import LOCK_FILE
from nmt.base.locks import is_locked
from nmt.evaluation.records import Status
from nmt.runs.log import converted_errors, print_error
from nmt.runs.ray_launcher import register_ray
from nmt.runs.search import parse_space

# Longest time that an interrupted sweep waits for its runs. It is limited, because runs that
# another command trains in the same folder do not end.
_SECONDS_TO_SAVE = 20.0


class SweepCallback(Callback):
    """Hydra callback that checks a sweep before its first run and reports it at the end."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check parallel runs and the search, and connect to the cluster of `cluster=ray`."""
        del kwargs
        launcher = config.hydra.launcher
        with _errors_end_the_command():
            _check_search(config)
            if launcher.get("n_jobs") == 0:
                raise UserError(
                    "run.parallel_runs, or hydra.launcher.n_jobs, is 0; choose 1 or more"
                )
            if launcher.get("backend") == "ray":
                register_ray(config.training.num_threads, launcher.n_jobs)
        if "n_jobs" in launcher and launcher.get("backend") != "ray":
            _let_runs_save(Path(config.hydra.sweep.dir))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Write the report, except after dry runs, and exit with status 2 if runs have failed."""
        # Imports torch, which takes seconds; Hydra loads this module in every command.
        from nmt.runs.sweep import write_sweep_report  # noqa: PLC0415

        del kwargs
        if OmegaConf.select(config, "run.dry_run"):
            return
        hydra_config = config.hydra if "hydra" in config else HydraConfig.get()
        with _errors_end_the_command():
            sweep = write_sweep_report(Path(hydra_config.sweep.dir))
        failed = [run.name for run in sweep.runs if run.status is Status.failed]
        if failed:
            print_error(
                f"{len(failed)} of {len(sweep.runs)} runs failed: {', '.join(failed)};"
                " report.html has their last lines, and the same command tries them again"
            )
            raise SystemExit(UserError.exit_status)


def _let_runs_save(sweep: Path) -> None:
    """Pass signals on to the parallel runs in child processes, and wait until they have saved.

    Only then does the signal interrupt this process, so that joblib kills the others.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        for process in multiprocessing.active_children():
            process.terminate()
        end = time.monotonic() + _SECONDS_TO_SAVE
        while any(map(is_locked, sweep.glob(f"*/{LOCK_FILE}"))) and time.monotonic() < end:
            time.sleep(0.05)
        interrupt[number](number, frame)

    interrupt: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        interrupt[number] = signal.signal(number, pass_on)


def _check_search(config: DictConfig) -> None:
    """Raise UserError if a key of `search.space` is also on the command line."""
    if not config.search.space:
        return
    given = {override.partition("=")[0] for override in config.hydra.overrides.task}
    for key in parse_space(config.search.space).keys() & given:
        raise UserError(f"{key} is on the command line and in search.space; leave out one of them")


@contextmanager
def _errors_end_the_command() -> Iterator[None]:
    """Print an error and exit: Hydra turns an Exception of a callback into a warning."""
    try:
        with converted_errors():
            yield
    except UserError as error:
        print_error(str(error))
        raise SystemExit(error.exit_status) from None
    except Exception:
        print_error(traceback.format_exc())
        raise SystemExit(1) from None
