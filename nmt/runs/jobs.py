"""One run of a sweep: a failure is recorded, and the other runs go on."""

import logging
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import torch

from nmt.base import layout
from nmt.base.errors import BusyError, UserError
from nmt.base.files import write_json
from nmt.base.locks import exclusive
from nmt.config import Config
from nmt.runs.log import print_error, print_line
from nmt.training.distributed import FailedProcessesError

logger = logging.getLogger(__name__)

_NUM_LINES = 20
_SECONDS_BETWEEN_TRIES = 1.0  # to lock a GPU


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
    """Give each of several runs on this machine a GPU of its own; wait until one is free.

    The locks are shared by all commands of this user, so several sweeps share the GPUs as well.

    Raises:
        UserError: more parallel runs than GPUs.
    """
    if config.run.parallel_runs == 1 or not torch.cuda.is_available():
        yield
        return
    num_gpus = torch.cuda.device_count()
    if config.run.parallel_runs > num_gpus:
        raise UserError(
            f"run.parallel_runs={config.run.parallel_runs} is more than the {num_gpus} GPUs of this"
            f" machine; set run.parallel_runs={num_gpus} or less"
        )
    with ExitStack() as stack:
        index = _lock_gpu(num_gpus, stack)
        os.environ["LOCAL_RANK"] = str(index)  # the device of a single process
        stack.callback(os.environ.pop, "LOCAL_RANK", None)
        yield


def _lock_gpu(num_gpus: int, stack: ExitStack) -> int:
    """Lock a GPU until the stack is closed, and return its index."""
    is_waiting = False
    while True:
        for index in range(num_gpus):
            # Indices depend on CUDA_VISIBLE_DEVICES, in which two commands may differ.
            name = f"nmt-{os.getuid()}-{torch.cuda.get_device_properties(index).uuid}.lock"
            with suppress(BusyError):
                stack.enter_context(exclusive(Path(tempfile.gettempdir(), name), _raise_busy))
                return index
        if not is_waiting:
            logger.info("all GPUs are used by other runs; waiting for one")
        is_waiting = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def _raise_busy() -> None:
    raise BusyError("")
