"""The command `nmt`, which is the same as `python -m nmt`."""

import os
import signal
import sys
from types import FrameType


def _interrupted(number: int, _: FrameType | None) -> None:
    """End with one line, as `run_command` does, while the modules of a command are imported."""
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)


# Not in the processes that a command starts, which import this module, too.
if (
    "multiprocessing.spawn" not in sys.modules
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _interrupted)

from nmt.cli.main import main  # noqa: E402 - the handler comes first

if __name__ == "__main__":
    main()
