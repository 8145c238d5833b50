"""Ctrl-C and SIGTERM: end after the update that is under way."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


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

        def note(number: int, frame: FrameType | None) -> None:
            del frame
            if noted.signal_number:
                raise Interruption(number)
            noted.signal_number = number

        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield noted
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def raise_if(self, signal_number: int) -> None:
        """Raise when a process was told to end; `signal_number` is the sum over processes."""
        if signal_number:
            raise Interruption(self.signal_number or signal.SIGTERM)

    @property
    def exit_status(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.signal_number
