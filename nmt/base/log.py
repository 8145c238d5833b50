"""Messages of commands and runs, on stderr and in the log file of a run."""

import errno
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from rich.console import Console

from nmt.base.errors import (
    DISK_ERRNOS,
    DiskError,
    MemoryShortageError,
    UserError,
    disk_errno,
    first_line,
    is_out_of_memory,
    printable,
)
from nmt.base.files import is_forbidden, no_link
from nmt.base.signals import Interruption

console = Console(stderr=True, highlight=False)

_logger = logging.getLogger("nmt")
_logger.propagate = False


def print_line(line: str) -> None:
    """Print a line on stderr, with terminal control characters escaped."""
    # If stderr is closed or a write to it fails, the exit status still reports an error.
    if sys.stderr is not None:
        with suppress(OSError):
            print(printable(line), file=sys.stderr)


def print_error(message: str) -> None:
    """Print an error on stderr."""
    print_line(f"error: {message}")


def print_written(paths: Iterable[Path]) -> None:
    """Print the files that a command has written."""
    print_line("\n  ".join(["written:", *map(str, paths)]))


@contextmanager
def converted_errors() -> Iterator[None]:
    """Raise Interruption for signals, and UserError for errors of disk, memory and permissions."""
    with Interruption.watched() as received, received.immediately():
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise MemoryShortageError(
                f"out of memory: {first_line(error)}; end other programs or, in translation, lower"
                " decoding.batch_size or decoding.beam_size, or set decoding.num_workers=1"
            ) from error
        except OSError as error:
            number = disk_errno(error)
            # Only errors of `print` name no file: `writing` names those of files.
            path = Path(os.fsdecode(error.filename or "/dev/stdout"))
            # Commands check inputs and create outputs: a missing file is a mistake in the program.
            if number in (None, errno.ENOENT) or not (error.filename or number in DISK_ERRNOS):
                raise
            if number == errno.EACCES and is_forbidden(path):
                raise UserError(f"{path}: cannot be read: permission denied") from error
            raise DiskError(path, number) from error


class _PrintableFormatter(logging.Formatter):
    """Format log messages with their control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        return printable(super().format(record))


class _Screen(logging.StreamHandler):
    """Writes to the current value of `sys.stderr`, which progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless a progress bar shows it or stderr is closed."""
        self.stream = sys.stderr
        if sys.stderr is not None and not (hasattr(record, "file_only") and sys.stderr.isatty()):
            super().emit(record)


class _LogFile(logging.FileHandler):
    """A log file that skips lines that cannot be written; only the first error is reported."""

    _is_reported = False

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding=self.encoding, opener=no_link)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - name set by logging
        """Report an error of `emit`."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_reported:
            self._is_reported = True
            print_line(f"{self.baseFilename}: lines will be missing ({error.strerror})")

    def close(self) -> None:
        """Close the file; lines that cannot be flushed are lost."""
        with suppress(OSError):
            super().close()


def set_up_logging(log_file: Path | None = None) -> None:
    """Send log messages to stderr and, with the time of each, to `log_file`."""
    handlers: list[logging.Handler] = [] if _logger.propagate else [_Screen()]
    for handler in handlers:
        handler.setFormatter(_PrintableFormatter("%(message)s"))
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(_LogFile(log_file, encoding="utf-8"))
        handlers[-1].setFormatter(_PrintableFormatter("%(asctime)s %(message)s"))
    for handler in _logger.handlers:
        handler.close()
    _logger.handlers = handlers
    # hydra.verbose lowers the level of the root logger, or of this one.
    _logger.setLevel(min(logging.INFO, logging.root.level, _logger.level or logging.INFO))


def log_to_hydra(is_configured: bool) -> None:
    """Send messages to the handlers that Hydra has set up, instead of stderr, if there are any."""
    _logger.propagate = is_configured
