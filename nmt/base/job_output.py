"""Terminal output of the jobs of a sweep: labelled lines, and details in the log only."""

import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import TextIO


class _Labelled(io.TextIOBase):
    """A stream that is no terminal and begins each line with a label."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream = stream
        self._label = label
        self._unfinished = ""

    def write(self, text: str) -> int:
        """Write whole lines, each by a single call, because other processes write as well.

        The rest is kept until its line ends.
        """
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._stream.write(f"[{self._label}] {line}\n")
        return len(text)

    def flush(self) -> None:
        """Flush whole lines."""
        self._stream.flush()

    def end(self) -> None:
        """End a line that has begun."""
        if self._unfinished:
            self.write("\n")


def short_name(name: str) -> str:
    """Shorten a name that consists of overrides, `dropout=0.1235` for `model.dropout=0.123456`."""
    keys_cut = re.sub(r"[\w.]+\.(?=\w+=)", "", name)
    return re.sub(r"=(\d+\.\d{4,}(e-\d+)?)", lambda found: f"={float(found[1]):.4g}", keys_cut)


@contextmanager
def labelled(name: str) -> Iterator[None]:
    """Begin each line on stderr with the short name of a run, as in `[model.dropout=0.1]`."""
    if sys.stderr is None:
        yield
        return
    stream = _Labelled(sys.stderr, short_name(name))
    with redirect_stderr(stream):
        try:
            yield
        finally:
            stream.end()


@contextmanager
def in_log_only() -> Iterator[None]:
    """In a job of a sweep, send what the block prints and logs to the log file only."""
    logger = logging.getLogger("nmt")
    handlers = list(logger.handlers)
    files = [handler for handler in handlers if isinstance(handler, logging.FileHandler)]
    if not (files and isinstance(sys.stderr, _Labelled)):
        yield
        return
    logger.handlers[:] = files
    try:
        with redirect_stderr(io.StringIO()) as printed:
            yield
        if text := printed.getvalue().rstrip("\n"):
            logger.info("\n%s", text)
    finally:
        logger.handlers[:] = handlers
