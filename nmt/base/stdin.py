"""Standard input whose reads end with a signal."""

import io
import os
import select
import signal
import sys
from typing import Any

from nmt.base.errors import UserError


class Stdin(io.FileIO):
    """Standard input; a signal ends a read, even if it arrives just before the read blocks.

    Raises:
        UserError: it is closed.
    """

    def __init__(self) -> None:
        if sys.stdin is None:
            raise UserError("file=-: stdin is closed; name a file")
        # The parent may have set it to non-blocking: a read without data would look like the end.
        os.set_blocking(descriptor := sys.stdin.buffer.fileno(), True)
        super().__init__(descriptor, closefd=False)
        self._signals, written = os.pipe()
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written)

    def _wait(self) -> None:
        select.select([self.fileno(), self._signals], [], [])

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes."""
        self._wait()
        return super().read(size)

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        self._wait()
        return super().readinto(buffer)
