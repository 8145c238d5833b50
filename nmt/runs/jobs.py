"""One run of a sweep: a failure is recorded, and the other runs go on."""

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from nmt.base import layout
from nmt.base.errors import BusyError, UserError
from nmt.base.files import write_json
from nmt.base.locks import exclusive
from nmt.config import Config
from nmt.runs.log import print_error, print_line
from nmt.training.distributed import FailedProcessesError

_NUM_LINES = 20


def run_job(folder: Path, job: Callable[[], None]) -> None:
    """Run one job of a sweep; write its last lines to `failure.json` if it fails.

    A run that another process is training is left to that process. Signals end the sweep, also a
    second Ctrl-C, which exits without saving.
    """
    failure = folder / layout.FAILURE_FILE
    failure.unlink(missing_ok=True)
    print_line(f"run {folder.name}")
    try:
        job()
    except BusyError as error:
        print_line(str(error))
    except (Exception, FailedProcessesError) as error:
        if isinstance(error, UserError):
            lines = str(error).splitlines()
        elif isinstance(error, FailedProcessesError):
            lines = [*_log_lines(folder), f"training has ended with status {error.code}"]
        else:
            lines = traceback.format_exc().splitlines()
        print_error("\n".join([f"{folder} has failed:", *lines]))
        write_json(failure, {"lines": lines[-_NUM_LINES:]})


def _log_lines(folder: Path) -> list[str]:
    log = folder / layout.LOG_FILE
    return log.read_text(encoding="utf-8").splitlines() if log.is_file() else []


@contextmanager
def own_gpu(config: Config) -> Iterator[None]:
    """Give each of several runs on this machine a GPU that no other of them uses.

    Raises:
        UserError: more runs than GPUs.
    """
    if config.run.parallel_runs == 1 or not torch.cuda.is_available():
        yield
        return
    with ExitStack() as stack:
        for index in range(torch.cuda.device_count()):
            try:
                lock = config.run_folder.parent / f".gpu{index}.lock"
                stack.enter_context(exclusive(lock, _raise_busy))
            except BusyError:
                continue
            os.environ["LOCAL_RANK"] = str(index)  # the device of a single process
            stack.callback(os.environ.pop, "LOCAL_RANK", None)
            yield
            return
        raise UserError(
            f"run.parallel_runs={config.run.parallel_runs} is more than the"
            f" {torch.cuda.device_count()} GPUs of this machine"
        )


def _raise_busy() -> None:
    raise BusyError("")
