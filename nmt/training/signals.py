"""Ctrl-C, SIGTERM, SIGUSR2: drop the unfinished update, save the last complete one, leave."""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

# A key press and a manager that passes it on are one wish: what follows so soon is not a second.
_ONE_WISH = 1.0

# What submitit has SLURM send to all processes of a job whose time is nearly up.
_TIME_IS_UP = signal.SIGUSR2


@contextlib.contextmanager
def handlers_put_back() -> Iterator[dict[int, Any]]:
    """Whatever the block makes of the signals to end, after it they mean what they meant before.

    Yields:
        SIGINT, SIGTERM and SIGUSR2, with their handlers.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, _TIME_IS_UP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield {int(number): handler for number, handler in before.items()}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interruption(BaseException):
    """The user or the machine asked the program to end.

    Where weights or files change, a signal is noted and not raised, so that a step is taken whole
    or not at all; inside `at_once` it is raised where it falls. A second one is raised anywhere.

    Attributes:
        signal_number: the signal that came; 0 while none has.
        is_urgent: whether a second one came: leave without saving.
    """

    def __init__(self, signal_number: int = 0) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number
        self.is_urgent = False
        self._is_at_once = False

    @classmethod
    @contextlib.contextmanager
    def watched(cls, is_launched: bool = False) -> Iterator["Interruption"]:
        """Note SIGINT, SIGTERM and SIGUSR2 while the block runs.

        A scheduler's own handler of SIGUSR2, which queues the job again and ends it, comes after.

        Args:
            is_launched: another process of ours passes signals on; it alone counts them.
        """
        noted = cls()
        first_at = 0.0

        def note(number: int, frame: FrameType | None) -> None:
            nonlocal first_at
            del frame
            if not noted.signal_number:
                noted.signal_number, first_at = number, time.monotonic()
                if noted._is_at_once:
                    raise Interruption(number)
            elif time.monotonic() - first_at > _ONE_WISH and not is_launched:
                noted.is_urgent = True
                raise Interruption(number)

        try:
            with handlers_put_back() as before:
                for number in before:
                    signal.signal(number, note)
                yield noted
        finally:
            if noted.signal_number == _TIME_IS_UP and callable(before[_TIME_IS_UP]):
                signal.raise_signal(_TIME_IS_UP)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside, nothing is lost when a signal is raised where it falls."""
        self._is_at_once = True
        try:
            if self.signal_number:
                self.end()
            yield
        except Exception as error:
            # Libraries in C turn what a handler raises into errors of their own.
            if self.signal_number:
                raise Interruption(self.signal_number) from error
            raise
        finally:
            self._is_at_once = False

    def end(self) -> NoReturn:
        """Raise: the work is at a point where it can stop."""
        raise Interruption(self.signal_number or signal.SIGTERM)

    @property
    def exit_status(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.signal_number
