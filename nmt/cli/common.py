"""What every command shares: messages, exit statuses, `key=value` arguments."""

import errno
import io
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn, TypeVar

from rich.console import Console

from nmt.config import from_mapping
from nmt.disk_fault import DiskFault, fault_number
from nmt.errors import UserError
from nmt.evaluation import tables
from nmt.evaluation.evaluate import Evaluation
from nmt.files import writing
from nmt.training.signals import Interruption

Arguments = TypeVar("Arguments")

console = Console(stderr=True, highlight=False)

EXIT_MENDABLE = 2

STDOUT = Path("/dev/stdout")
"""Stdout, for messages, and for asking what disk it leads to."""


class _LogFile(logging.FileHandler):
    """A log file that says once, on the screen, that its disk refuses it; the work goes on.

    It goes on trying: with room made, the log continues.
    """

    _is_refused = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging calls it so
        """Called by `emit` while it handles the error."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._is_refused:
            self._is_refused = True
            _print_on_screen(
                f"{self.baseFilename}: can no longer be written ({error.strerror}); lines will be"
                " missing from it, and the work goes on"
            )

    def close(self) -> None:
        """What cannot be flushed is lost; that has been said."""
        with suppress(OSError):
            super().close()


def set_up_logging(log_file: Path | None = None) -> None:
    """Messages go to stderr, each on a line of its own, and to `log_file` with the time."""
    to_screen = logging.StreamHandler(sys.stderr)
    to_screen.setFormatter(logging.Formatter("%(message)s"))
    handlers: list[logging.Handler] = [to_screen]
    if log_file is not None:
        with writing(log_file):
            log_file.parent.mkdir(parents=True, exist_ok=True)
            to_file = _LogFile(log_file, encoding="utf-8")
        to_file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        handlers.append(to_file)
    logger = logging.getLogger("nmt")
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in handlers:
        logger.addHandler(handler)


# What our handlers have raised.
_told: list[BaseException] = []


def raise_at_termination() -> None:
    """Meet SIGTERM as Ctrl-C: by an exception, so that what is half-made is taken away."""
    _told.clear()

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        _told.append(KeyboardInterrupt() if number == signal.SIGINT else Interruption(number))
        raise _told[-1]

    signal.signal(signal.SIGTERM, terminate)
    # In the background a shell lets us ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, terminate)


@contextmanager
def signals_as_themselves() -> Iterator[None]:
    """Undo that libraries in C turn what a handler raises into errors of their own."""
    try:
        yield
    except Exception as error:
        if _told:
            raise _told[-1] from error
        raise


def run_command(command: Callable[[], None]) -> None:
    """Run a command and leave with its exit status.

    0 when done, else `exit_status`; a traceback means a mistake of ours.
    """
    raise_at_termination()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Texts are UTF-8 here, as in files, whatever the terminal is.
        sys.stdout.reconfigure(encoding="utf-8")
    try:
        with signals_as_themselves(), named_disk_faults():
            try:
                command()
            except SystemExit as left:
                if left.code:
                    raise
            # Now, while it can be told, and not when the interpreter shuts down.
            with writing(STDOUT):
                _flush_stdout()
    except UserError as error:
        say_error(str(error))
        sys.exit(exit_status(error))
    except (Interruption, KeyboardInterrupt) as error:
        say_error("interrupted")
        sys.exit(exit_status(error))
    except BrokenPipeError as error:
        # Whoever read our output has left, as `head` does; there is nobody to tell.
        sys.exit(exit_status(error))
    finally:
        _give_up_stdout()


def exit_status(error: BaseException) -> int:
    """What a command that ends by this error leaves with.

    2 when the user can mend it, 130 after Ctrl-C, 143 after SIGTERM, 141 when whoever read the
    output has left; 1 is a mistake of ours.
    """
    if isinstance(error, UserError):
        return EXIT_MENDABLE
    if isinstance(error, Interruption):
        return error.exit_status
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 141 if isinstance(error, BrokenPipeError) else 1


@contextmanager
def named_disk_faults() -> Iterator[None]:
    """The last net below `writing`: what a library could not write, by the name that it gives."""
    try:
        yield
    except OSError as error:
        number = fault_number(error)
        # A file that is not there was more likely to be read, by a mistake of ours.
        if number in (None, errno.ENOENT) or error.filename is None:
            raise
        raise DiskFault(Path(os.fsdecode(error.filename)), number) from error


def _give_up_stdout() -> None:
    """Forget what stdout does not take: at shutdown the interpreter would fail on it once more."""
    try:
        _flush_stdout()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_stdout() -> None:
    if sys.stdout is not None:  # with >&- there is none
        sys.stdout.flush()


def stdout() -> IO[str]:
    """Where results go that have no file.

    Raises:
        UserError: who started us has closed it.
    """
    if sys.stdout is None:
        raise UserError("there is no stdout to write to; name a file with out=")
    return sys.stdout


def say_error(message: str) -> None:
    """Print an error on stderr."""
    _print_on_screen(f"error: {message}")


def _print_on_screen(message: str) -> None:
    # Where stderr leads to a full disk too, nobody can be told: the exit status has to do.
    with suppress(OSError):
        print(message, file=sys.stderr)


# What a configuration would take for the value of another key; a file may have it in its name.
_INTERPOLATION = re.compile(r"(\\*)\$\{")


def parse_arguments(
    kind: type[Arguments], usage: str, arguments: Sequence[str] | None = None
) -> Arguments:
    """Read `key=value` arguments into a dataclass, whose fields document themselves.

    Raises:
        UserError: an unknown key or a value of the wrong type.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if any(argument in {"-h", "--help"} for argument in given):
        with writing(STDOUT):
            print(usage, flush=True)
        raise SystemExit(0)
    for argument in given:
        if "=" not in argument:
            keys = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]
            raise UserError(f"{argument!r} is not key=value; the keys are {keys}")
    # Values stay text until the dataclass says what they are: a file may be called [1].txt.
    values: dict[str, Any] = {}
    for argument in given:
        path, _, text = argument.partition("=")
        *groups, key = path.split(".")
        place = values
        for group in groups:
            place = place.setdefault(group, {})
            if isinstance(place, str):
                raise UserError(f"{argument}: {group}={place} stands beside it, and has no keys")
        if isinstance(place.get(key), dict):
            raise UserError(f"{argument}: keys of {key} stand beside it; give only those")
        place[key] = _INTERPOLATION.sub(r"\1\1\\${", text)
    keys = ", ".join(field.name for field in fields(kind))  # type: ignore[arg-type]
    for key in values:
        if key not in keys.split(", "):
            raise UserError(f"{key}= is no argument here; the keys are {keys}")
    for field in fields(kind):  # type: ignore[arg-type]
        given_as = values.get(field.name)
        if field.default_factory is dict and isinstance(given_as, str):
            raise UserError(f"{field.name}={given_as}: has keys; give {field.name}.KEY=VALUE")
    parsed: Any = from_mapping(kind, values, "arguments")
    return parsed


def show_scores(evaluations: Sequence[Evaluation]) -> None:
    """Print the table of scores, and below it what a reader of it has to know."""
    if not evaluations:
        return
    console.print(tables.scores_table(evaluations))
    for line in tables.note_lines(evaluations):
        console.print(line, markup=False, soft_wrap=True)


def named_folders(names: str) -> list[Path]:
    """The folders that an argument names, split by blanks.

    One whose name has blanks is one if it stands alone; among others it is quoted, as in a shell.

    Raises:
        UserError: a quotation has no end.
    """
    if os.path.isdir(names):  # Path.is_dir raises where several names make too long a one
        return [Path(names)]
    try:
        return [Path(name) for name in shlex.split(names)]
    except ValueError as error:
        raise UserError(f"{names}: cannot be split into folders: {error}") from None


def name_files(paths: Sequence[Path]) -> None:
    """Say which files a command has written."""
    console.print("written:", markup=False)
    for path in paths:
        console.print(f"  {path}", markup=False, soft_wrap=True)
