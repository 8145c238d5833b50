"""Ctrl-C and SIGTERM: end after the update that is under way."""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

# One Ctrl-C reaches a worker twice: from the terminal, and from the launcher, which passes it on.
_ONE_KEY_PRESS = 2.0


class Interruption(BaseException):
    """The user or the machine asked the program to end.

    A signal is noted and not raised where it falls, so that an update is whole or not at all. A
    second one is raised at once.

    Attributes:
        signal_number: the signal that came; 0 while none has.
    """

    def __init__(self, signal_number: int = 0) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number

    @classmethod
    @contextlib.contextmanager
    def watched(cls) -> Iterator["Interruption"]:
        """Note SIGINT and SIGTERM while the block runs."""
        noted = cls()

        first_at = 0.0

        def note(number: int, frame: FrameType | None) -> None:
            nonlocal first_at
            del frame
            if not noted.signal_number:
                noted.signal_number, first_at = number, time.monotonic()
            elif time.monotonic() - first_at > _ONE_KEY_PRESS:
                raise Interruption(number)

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield noted
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def end(self) -> NoReturn:
        """Raise: the work is at a point where it can stop."""
        raise Interruption(self.signal_number or signal.SIGTERM)

    @property
    def exit_status(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.signal_number
