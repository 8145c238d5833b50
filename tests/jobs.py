"""A job for tests of executors, in a module that other processes import quickly."""

import os
import signal
import time
from pathlib import Path

from nmt.base.errors import UserError


def write_process_id(folder: str) -> None:
    """Write the id of this process to a file of this name, then wait."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(1000)


def double(number: int) -> int:
    """Return twice the number; 13 is an error, 14 kills the process."""
    if number == 13:
        raise UserError("13 brings bad luck")
    if number == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number
