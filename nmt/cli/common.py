"""Messages, logging and exit statuses, the same for all commands."""

import errno
import io
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from rich.console import Console

from nmt.base.errors import DiskError, PrintableFormatter, UserError, disk_errno, printable
from nmt.base.files import check_writable, writing
from nmt.cli.arguments import STDOUT
from nmt.training.signals import Interruption

console = Console(stderr=True, highlight=False)


class _Screen(logging.StreamHandler):
    """Writes to the present `sys.stderr`, which progress bars replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self.stream = sys.stderr
        super().emit(record)


class _LogFile(logging.FileHandler):
    """A log file that survives a full disk: it reports the error once and keeps trying to write."""

    _is_reported = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - name set by logging
        """Report an error of `emit`."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_reported:
            self._is_reported = True
            _print_to_stderr(f"{self.baseFilename}: lines will be missing ({error.strerror})")

    def close(self) -> None:
        """Close the file; what cannot be flushed is lost."""
        with suppress(OSError):
            super().close()


def set_up_logging(log_file: Path | None = None) -> None:
    """Send messages to stderr, and with the time to `log_file`."""
    handlers: list[logging.Handler] = [_Screen()]
    handlers[0].addFilter(lambda record: not (hasattr(record, "file_only") and console.is_terminal))
    handlers[0].setFormatter(PrintableFormatter("%(message)s"))
    if log_file is not None:
        with writing(log_file):
            log_file.parent.mkdir(parents=True, exist_ok=True)
            handlers.append(_LogFile(log_file, encoding="utf-8"))
        handlers[1].setFormatter(PrintableFormatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("nmt")
    for handler in logger.handlers:
        handler.close()
    logger.handlers = handlers
    logger.setLevel(logging.INFO)
    logger.propagate = False


_raised_by_signals: list[BaseException] = []


def raise_on_signals() -> None:
    """Turn SIGTERM and Ctrl-C into exceptions, so that unfinished files are removed."""
    _raised_by_signals.clear()

    def handle(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        _raised_by_signals.append(Interruption(number))
        raise _raised_by_signals[-1]

    signal.signal(signal.SIGTERM, handle)
    # A shell makes its background commands ignore SIGINT.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle)


@contextmanager
def converted_errors() -> Iterator[None]:
    """Raise signals and disk errors under their own types.

    C libraries replace the exception of a signal handler by their own, and raise a plain OSError
    for files that they cannot write.
    """
    try:
        yield
    except Exception as error:
        if _raised_by_signals:
            raise _raised_by_signals[-1] from error
        number = disk_errno(error)
        # A missing file is one to be read, so this is a mistake in the program.
        if not isinstance(error, OSError) or number in (None, errno.ENOENT) or not error.filename:
            raise
        raise DiskError(Path(os.fsdecode(error.filename)), number) from error


def run_command(command: Callable[[], None]) -> None:
    """Run a command and exit with its status; a traceback means a mistake in the program."""
    raise_on_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale is
    try:
        with converted_errors():
            try:
                command()
            except SystemExit as exit_:
                if exit_.code:
                    raise
            # Now, because the interpreter could not report an error at its shutdown.
            with writing(STDOUT):
                _flush_stdout()
    except (UserError, Interruption, KeyboardInterrupt, BrokenPipeError) as error:
        if not isinstance(error, BrokenPipeError):  # the reader has exited, as `head` does
            print_error(str(error) if isinstance(error, UserError) else "interrupted")
        sys.exit(exit_status(error))
    finally:
        try:
            _flush_stdout()
        except OSError:  # at shutdown the interpreter would fail once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def exit_status(error: BaseException) -> int:
    """Exit status of a command that ends with this error.

    2 for an error that the user can fix, 130 after Ctrl-C, 143 after SIGTERM, 141 when the reader
    of the output has exited, 1 for a mistake in the program.
    """
    if isinstance(error, Interruption):
        return error.exit_status
    statuses = {UserError: 2, KeyboardInterrupt: 130, BrokenPipeError: 141}
    return next((status for kind, status in statuses.items() if isinstance(error, kind)), 1)


def _flush_stdout() -> None:
    if sys.stdout is not None:  # closed with >&-
        sys.stdout.flush()


def stdout() -> IO[str]:
    """Return stdout, for results without a file."""
    if sys.stdout is None:
        raise UserError("there is no stdout to write to; name a file with out=")
    return sys.stdout


def check_output(path: Path, *inputs: Path) -> None:
    """Raise a UserError if a file cannot be written, or is one of the inputs."""
    if path.is_dir():
        raise UserError(f"out={path} is a folder; name a file")
    if path.resolve() in [file.resolve() for file in inputs]:
        raise UserError(f"the input {path} would be overwritten; name another file with out=")
    check_writable(path)


def print_error(message: str) -> None:
    """Print an error on stderr, with terminal control characters escaped."""
    _print_to_stderr(f"error: {printable(message)}")


def _print_to_stderr(message: str) -> None:
    # Where stderr cannot be written either, the exit status has to suffice.
    with suppress(OSError):
        print(message, file=sys.stderr)


def print_line(line: str) -> None:
    """Print a line on stderr as it is, without wrapping or markup."""
    console.print(line, markup=False, soft_wrap=True)


def print_written(paths: Sequence[Path]) -> None:
    """Print the files that a command has written."""
    for line in ("written:", *(f"  {path}" for path in paths)):
        print_line(line)


def parse_folders(names: str) -> list[Path]:
    """Split an argument into folders at spaces, unless it names an existing folder."""
    if os.path.isdir(names):  # Path.is_dir raises on a text longer than any path
        return [Path(names)]
    try:
        return [Path(name) for name in shlex.split(names)]
    except ValueError as error:
        raise UserError(f"{names}: cannot be split into folders: {error}") from None
