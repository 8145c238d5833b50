"""One run of a sweep: a failure is recorded, and the other runs continue."""

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from nmt.base import layout
from nmt.base.errors import BusyError, FailedProcessesError, UserError
from nmt.base.files import write_json
from nmt.runs.log import print_error, print_line
from nmt.training.signals import Interruption

_NUM_LINES = 20
_SECONDS_TO_BE_KILLED = 60.0


def run_job(folder: Path, job: Callable[[], None]) -> None:
    """Run one job of a sweep; if it fails, `failure.json` gets the last lines of its error or log.

    A run that another process is training is skipped. A signal ends the whole sweep. If this is one
    of several parallel processes, it then waits until the command kills it.
    """
    is_parallel = multiprocessing.parent_process() is not None
    if is_parallel:
        # Between jobs, a signal would end this process, and joblib would then kill the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    failure = folder / layout.FAILURE_FILE
    failure.unlink(missing_ok=True)
    print_line(f"run {folder.name}")
    try:
        job()
    except BusyError as error:
        print_line(str(error))
    except Interruption:
        if is_parallel:  # an exception would let joblib kill the others before they have saved
            time.sleep(_SECONDS_TO_BE_KILLED)
        raise
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
