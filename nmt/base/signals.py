"""Handlers of Ctrl-C, SIGTERM and others, after which training saves its last update and exits."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

# A process manager may forward a Ctrl-C that the terminal has also sent to this process. Signals
# that follow each other within this time therefore count as one.
_SECONDS_OF_ONE_REQUEST = 1.0

# Ctrl-C; the usual request to exit; a terminal that is closed; a time limit that is near, as by
# `#SBATCH --signal=USR1@60`; a limit of the CPU time (ulimit -t).
REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)

# submitit lets SLURM send this signal to all processes of a job whose time limit is near.
_TIME_LIMIT = signal.SIGUSR2


@contextlib.contextmanager
def handlers_restored() -> Iterator[dict[int, Any]]:
    """Restore the handlers of `REQUESTS` and SIGUSR2 after the block; yield them by signal."""
    before = {int(number): signal.getsignal(number) for number in (*REQUESTS, _TIME_LIMIT)}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_ignored(number: int) -> bool:
    """Return whether `nohup` lets this process outlive its terminal, and this signal is SIGHUP."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


class Interruption(BaseException):
    """The user or the machine asked the program to exit.

    A signal is only recorded, so that an optimizer step or a file is either complete or absent.
    Inside `immediately`, the first signal raises at once. A second signal exits without saving.
    """

    def __init__(self, signal_number: int = 0) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number  # the first one received; 0 before that
        self._received_at = 0.0
        self._is_immediate = False

    @classmethod
    @contextlib.contextmanager
    def watched(cls) -> Iterator["Interruption"]:
        """Handle `REQUESTS` and SIGUSR2 inside the block. Under `nohup`, SIGHUP stays ignored.

        A scheduler's own handler of SIGUSR2, which requeues the job, is called after the block.
        """
        received = cls()
        try:
            with handlers_restored() as before:
                for number in before:
                    if not is_ignored(number):
                        signal.signal(number, received._handle)
                yield received
        finally:
            if received.signal_number == _TIME_LIMIT and callable(before[_TIME_LIMIT]):
                signal.raise_signal(_TIME_LIMIT)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if not self.signal_number:
            self.signal_number, self._received_at = number, time.monotonic()
            if self._is_immediate:
                self.exit()
            return
        is_second = time.monotonic() - self._received_at > _SECONDS_OF_ONE_REQUEST
        is_second = is_second and number != signal.SIGXCPU  # which the system sends every second
        if is_second and "RANK" not in os.environ:  # where it is set, the launcher ends the process
            sys.exit(128 + number)

    @contextlib.contextmanager
    def immediately(self) -> Iterator[None]:
        """Exit at once on a signal inside the block, or before it: no work is lost there."""
        self._is_immediate = True
        try:
            if self.signal_number:
                self.exit()
            yield
            if self.signal_number:  # the handler raised where Python ignores that, as in `__del__`
                self.exit()
        except Exception as error:
            # C extensions may replace the exception of the signal handler by another.
            if self.signal_number:
                raise Interruption(self.signal_number) from error
            raise
        finally:
            self._is_immediate = False

    def exit(self) -> NoReturn:
        """Raise Interruption with the recorded signal, or SIGTERM if another rank received it."""
        raise Interruption(self.signal_number or signal.SIGTERM)

    @property
    def exit_status(self) -> int:
        """The exit status that shells use for a process that a signal ended."""
        return 128 + self.signal_number
