"""One run of a sweep: a failure is recorded, and the other runs continue."""

import traceback
from collections.abc import Callable
from pathlib import Path

from nmt.base import layout
from nmt.base.errors import BusyError, FailedProcessesError, UserError
from nmt.base.files import write_json
from nmt.runs.log import print_error, print_line

_NUM_LINES = 20


def run_job(folder: Path, job: Callable[[], None]) -> None:
    """Run one job of a sweep; write its last lines to `failure.json` if it fails.

    A run that another process is training is skipped. Signals end the sweep, also a
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
