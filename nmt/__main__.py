"""The command `nmt`, which is the same as `python -m nmt`."""

# What is imported here is a part of the interpreter: before the handler is set, Ctrl-C is a
# traceback. `signal` would import other files.
import _signal  # type: ignore[import-not-found]
import os
import sys


def _interrupted(number: int, _: object) -> None:
    """End with one line, as `run_command` does, while the modules of a command are imported."""
    os.write(2, b"error: interrupted\n")
    os._exit(128 + number)


# Not in the processes that a command starts, which import this module, too.
if (
    "multiprocessing.spawn" not in sys.modules
    and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
):
    _signal.signal(_signal.SIGINT, _interrupted)

import atexit  # noqa: E402 - the handler comes first
import gc  # noqa: E402

from nmt.cli.main import main  # noqa: E402

# The shutdown of the interpreter would collect what torch has created, which takes 0.6 s of
# processor time. On a busy machine, these are seconds between Ctrl-C and the prompt.
atexit.register(gc.freeze)

if __name__ == "__main__":
    main()
