"""Sweeps by Hydra's --multirun: their checks, reports, runs and failures, and the Ray launcher."""

import atexit
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from nmt.base import layout
from nmt.base.errors import BusyError, FailedProcessesError, UserError
from nmt.base.files import write_json
from nmt.base.job_output import labelled
from nmt.base.locks import is_locked
from nmt.base.log import converted_errors, print_error, print_line
from nmt.base.ray_cluster import connect_to_ray
from nmt.base.signals import REQUESTS, Interruption, is_ignored
from nmt.base.system import signal_at_death_of_parent
from nmt.run_folder import Run, Status
from nmt.runs.job_names import task_overrides

# Longest time that an interrupted sweep waits for its runs. It is limited, because runs that
# another command trains in the same folder do not end.
_SECONDS_TO_SAVE = 20.0
_SECONDS_TO_BE_KILLED = 60.0  # how long an interrupted run waits until the command kills it
_NUM_LINES = 20  # of failure.json, and of a log that is printed
# Prefixes of the variables that Ray workers get; `make train DATA=…` passes a path in DATA.
_OWN_VARIABLES = ("NMT_", "HYDRA_", "WANDB_", "DATA")


class SweepCallback(Callback):
    """Hydra callback that checks a sweep before its first run and reports it at the end."""

    def __init__(self) -> None:
        self._earlier: dict[str, int] = {}  # failures before this sweep, see `_failures`

    def on_multirun_start(self, config: DictConfig, **_options: Any) -> None:
        """Check keys, and prepare for parallel runs; a dry run gets a temporary folder."""
        launcher = config.hydra.launcher
        if OmegaConf.select(config, "run.dry_run"):
            folder = tempfile.mkdtemp(prefix="nmt-dry-run-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            config.hydra.sweep.dir = folder
            # Launchers compose the configuration of each job again, with these overrides.
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir={folder}")
        with _errors_end_the_command():
            _check_keys(config)
            if launcher.get("backend") == "ray":
                _register_ray(config.training.num_threads, launcher.n_jobs)
        self._earlier = _failures(Path(config.hydra.sweep.dir))
        if "n_jobs" in launcher and launcher.get("backend") != "ray":
            _let_runs_save(Path(config.hydra.sweep.dir))

    def on_multirun_end(self, config: DictConfig, **_options: Any) -> None:
        """Write the report, except after dry runs, and exit with status 2 if runs have failed."""
        # Imported here, because it loads torch, and every command with Hydra loads this class.
        from nmt.runs.sweep import write_sweep_report  # noqa: PLC0415

        if OmegaConf.select(config, "run.dry_run"):
            return
        folder = Path(config.hydra.sweep.dir)
        with _errors_end_the_command():
            sweep = write_sweep_report(folder)
        # Failures of an earlier sweep in the same folder do not count.
        new = dict(_failures(folder).items() - self._earlier.items())
        failed = [run.name for run in sweep.runs if run.status is Status.failed and run.name in new]
        if failed:
            print_error(
                f"{len(failed)} of {len(sweep.runs)} runs failed: {', '.join(failed)};"
                " report.html has their last lines, and the same command tries them again"
            )
            raise SystemExit(UserError.exit_status)


def _failures(sweep: Path) -> dict[str, int]:
    """Return the time of failure in nanoseconds of each failed run, by the name of its folder."""
    files = sweep.glob(f"*/{layout.FAILURE_FILE}")
    return {path.parent.name: path.stat().st_mtime_ns for path in files}


def _check_keys(config: DictConfig) -> None:
    """Check what a sweep varies.

    Raises:
        UserError: a sweep has no values, varies a key that names its folder, or searches in the
            wrong direction.
    """
    parser = OverridesParser.create(GlobalHydra.instance().config_loader())
    overrides = parser.parse_overrides(task_overrides(config.hydra))
    for one in overrides:
        if one.is_discrete_sweep() and not list(one.sweep_iterator()):
            raise UserError(f"{one.input_line} stands for no value, so no run would be trained")
    swept = {one.get_key_element() for one in overrides if one.is_sweep_override()}
    for key in sorted(swept & {"run.name", "run.outputs"}):
        raise UserError(f"{key} names the folder of the sweep; start a command for each value")
    metric = OmegaConf.select(config, "training.validation_metric")
    better = "minimize" if metric == "loss" else "maximize"
    if better not in str(config.hydra.sweeper.get("direction", better)):
        raise UserError(
            f"training.validation_metric={metric} needs hydra.sweeper.direction={better}"
        )


def _let_runs_save(sweep: Path) -> None:
    """Pass signals on to the parallel runs in child processes, and wait until they have saved.

    Only then does the signal interrupt this process, so that joblib kills the others.
    """
    # A process of joblib removes the temporary files of killed runs. Its warnings, such as those
    # about files that no longer exist, would stand after the last line of the command.
    ignored = "ignore:resource_tracker"
    os.environ["PYTHONWARNINGS"] = ",".join([*filter(None, [os.getenv("PYTHONWARNINGS")]), ignored])

    def pass_on(number: int, frame: FrameType | None) -> None:
        for process in multiprocessing.active_children():
            process.terminate()
        end = time.monotonic() + _SECONDS_TO_SAVE
        while any(map(is_locked, sweep.glob(f"*/{layout.LOCK_FILE}"))) and time.monotonic() < end:
            time.sleep(0.05)
        interrupt[number](number, frame)

    interrupt: dict[int, Any] = {}
    for number in REQUESTS:
        if not is_ignored(number):
            interrupt[number] = signal.signal(number, pass_on)


@contextmanager
def _errors_end_the_command() -> Iterator[None]:
    """Print an error and exit, because Hydra turns an Exception of a callback into a warning."""
    try:
        with converted_errors():
            yield
    except UserError as error:
        print_error(str(error))
        raise SystemExit(error.exit_status) from None
    except Exception:
        print_error(traceback.format_exc())
        raise SystemExit(1) from None


def run_job(
    folder: Path, job: Callable[[], float | None], is_dry_run: bool = False
) -> float | None:
    """Run one job of a sweep; if it fails, `failure.json` gets the last lines of its error or log.

    A run that another process is training is skipped. A signal ends the whole sweep: a process that
    joblib started for parallel runs then waits until the command kills it.

    Returns:
        What the job returns; 0 for a dry run, and None for a run that was skipped or has failed.

    Raises:
        UserError: a dry run has failed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        _set_up_child(parent)
    failure = folder / layout.FAILURE_FILE
    failure.unlink(missing_ok=True)
    with labelled(folder.name):
        try:
            with converted_errors():
                metric = job()
            if is_dry_run:
                return 0.0  # sweepers that search need a number
            print_end(folder)
            return metric
        except BusyError as error:
            print_line(str(error))
        except Interruption:
            # If an exception left this process now, joblib would kill others that have not saved.
            end = time.monotonic() + _SECONDS_TO_BE_KILLED
            while parent is not None and time.monotonic() < end:
                _end_if_orphaned(parent)
                time.sleep(0.1)
            raise
        except (Exception, FailedProcessesError) as error:
            lines = _last_lines(error, folder / layout.LOG_FILE)
            print_error("\n".join([f"{folder} has failed:", *lines]))
            if is_dry_run:
                raise UserError(f"the dry run of {folder.name} has failed") from None
            write_json(failure, {"lines": lines[-_NUM_LINES:]})
    return None


def print_end(folder: Path) -> None:
    """Print scores, time and folder of a run, if it is complete."""
    result = Run(folder).final
    if result is None:
        return
    scores = {"valid": result["valid"]["bleu"]}
    scores |= {name: scored["bleu"]["score"] for name, scored in result["test_sets"].items()}
    shown = ", ".join(f"{name} {bleu:.2f}" for name, bleu in scores.items())
    print_line(f"BLEU {shown}; {result['training_seconds'] / 60:.1f} minutes; {folder}")


def _last_lines(error: BaseException, log: Path) -> list[str]:
    """Return the message of an error, or the last lines of the log if processes have failed."""
    if isinstance(error, UserError):
        return str(error).splitlines()
    if isinstance(error, FailedProcessesError):
        logged = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
        return [*logged[-_NUM_LINES:], f"training has ended with status {error.code}"]
    return traceback.format_exc().splitlines()


def _set_up_child(parent: BaseProcess) -> None:
    """Set up a process that joblib started."""
    # joblib sets a start method of its own, which processes that the run starts do not know.
    multiprocessing.set_start_method("spawn", force=True)
    # Between jobs, a signal would end this process, and joblib would then kill the others.
    for number in REQUESTS:
        signal.signal(number, signal.SIG_IGN)
    # If the command is killed, this process gets SIGTERM, so its run is saved and ends.
    signal_at_death_of_parent(signal.SIGTERM)
    _end_if_orphaned(parent)


def _end_if_orphaned(parent: BaseProcess) -> None:
    """End this process, which joblib started, if the command has ended: no more jobs will come."""
    if os.getppid() != parent.pid:
        os._exit(UserError.exit_status)


def _register_ray(cores_per_run: int, num_runs: int) -> None:
    """Connect to the Ray cluster of RAY_ADDRESS; Hydra's joblib launcher will run jobs on it.

    Up to `num_runs` runs train at a time. Each reserves cores and, if the cluster has GPUs, a GPU.
    Runs use the working directory of this process and its environment variables of nmt, Hydra and
    wandb, so all hosts need the same file system.

    Raises:
        UserError: there is no such cluster, or `num_runs` is below 2 or does not fit into it.
    """
    connect_to_ray("", "cluster=ray")
    # Imported here, because these imports take seconds.
    import ray  # noqa: PLC0415
    from joblib import register_parallel_backend  # noqa: PLC0415
    from ray.util.joblib.ray_backend import RayBackend  # noqa: PLC0415

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    needed = {"CPU": max(1, cores_per_run)}
    if any("GPU" in node for node in nodes):
        needed["GPU"] = 1

    def num_fitting(node: Mapping[str, float]) -> int:
        return min(int(node.get(name, 0) // number) for name, number in needed.items())

    capacity = sum(map(num_fitting, nodes))
    reserved = {"num_cpus": needed["CPU"], "num_gpus": needed.get("GPU", 0)}
    # With one run at a time, joblib does not use the backend. With too many, Ray would wait forever
    # for further nodes.
    if not 2 <= num_runs <= capacity:
        raise UserError(
            f"hydra.launcher.n_jobs={num_runs} must be from 2 to the number of runs that fit into"
            f" the Ray cluster, {capacity}: each takes {needed['CPU']} cores of a node"
            " (training.num_threads) and, if there are GPUs, one GPU"
        )
    own = {name: value for name, value in os.environ.items() if name.startswith(_OWN_VARIABLES)}
    set_up = partial(_set_up, os.getcwd(), own)

    class Backend(RayBackend):
        """Ray's backend, whose workers are set up before their first run."""

        def configure(self, *arguments: Any, **options: Any) -> Any:
            """Start the workers."""
            return super().configure(*arguments, **dict(options, initializer=set_up))

    # Hydra's launcher sets `backend` to loky, whatever the configuration is.
    register_parallel_backend("loky", partial(Backend, ray_remote_args=reserved))


def _set_up(folder: str, variables: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(variables)
