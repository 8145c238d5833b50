"""Exit status, output file and folders of a command."""

import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nmt.base.errors import DiskError, UserError, disk_errno_in
from nmt.base.files import atomic_path, check_not_read, check_writable, writing, written_to
from nmt.base.guards import check_not_in_results
from nmt.runs.log import converted_errors, print_error
from nmt.training.signals import Interruption

_STDOUT = Path("/dev/stdout")  # for error messages


def run_command(command: Callable[[], None]) -> None:
    """Run a command and exit with its status.

    The status is 2 for an error that the user can fix, 130 after Ctrl-C, 143 after SIGTERM, 141
    when the reader of the output has exited. A traceback means a mistake in the program.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale is
        raw: io.IOBase = sys.stdout.buffer
        # With PYTHONUNBUFFERED, the text after a short write would be lost.
        if isinstance(raw, io.RawIOBase) and sys.stdout is sys.__stdout__:
            buffer = io.BufferedWriter(raw)
            sys.stdout = io.TextIOWrapper(buffer, encoding="utf-8", line_buffering=True)
    try:
        with converted_errors():
            command()
            # The interpreter would flush at its shutdown, when errors are no longer reported.
            with writing(_STDOUT):
                _flush_stdout()
    except (UserError, Interruption) as error:
        print_error(str(error) if isinstance(error, UserError) else "interrupted")
        sys.exit(error.exit_status)
    except BrokenPipeError:  # the reader has exited, as `head` does
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        number = disk_errno_in(str(error))
        if error.filename or number is None:
            raise
        print_error(str(DiskError(_STDOUT, number)))  # only `print` names no file
        sys.exit(UserError.exit_status)
    finally:
        try:
            _flush_stdout()
        except OSError:  # prevents the same error at the shutdown of the interpreter
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_stdout() -> None:
    if sys.stdout is not None:  # closed with >&-
        sys.stdout.flush()


def output_path(out: str, default: Path | None, *inputs: Path) -> Path | None:
    """Return the file that `out=` names, the default if it is empty, or None for stdout.

    Raises:
        UserError: the file is a folder, would replace an input or a file of a run, model, export
            or corpus, or cannot be written.
    """
    path = Path(out) if out else default
    if path is None or out == "-":
        return None
    if path.is_dir():
        raise UserError(f"out={path} is a folder; name a file")
    check_not_read([path], inputs)
    check_not_in_results([path])
    check_writable(path)
    return written_to(path)


@contextmanager
def open_output(path: Path | None) -> Iterator[IO[str]]:
    """Open a file that appears when it is complete, or stdout for None."""
    if path is not None:
        with (
            atomic_path(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="\n") as out,
        ):
            yield out
    elif sys.stdout is None:
        raise UserError("there is no stdout to write to; name a file with out=")
    else:
        with writing(_STDOUT):
            yield sys.stdout
            sys.stdout.flush()


def parse_folders(names: str) -> list[Path]:
    """Split an argument into folders at spaces, unless it names an existing folder."""
    if os.path.isdir(names):  # Path.is_dir raises on a text longer than any path
        return [Path(names)]
    try:
        return [Path(name) for name in shlex.split(names)]
    except ValueError as error:
        raise UserError(f"{names}: cannot be split into folders: {error}") from None
