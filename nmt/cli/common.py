"""What all commands share: exit status and output files."""

import gc
import io
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nmt.base.errors import UserError
from nmt.base.log import converted_errors, print_error
from nmt.base.outputs import Outputs
from nmt.base.signals import Interruption


def run_command(command: Callable[[], None]) -> None:
    """Run a command and exit with its status.

    The status is 2 for an error that the user can fix, 130 after Ctrl-C, 143 after SIGTERM, 141
    when the reader of the output has exited. A traceback means a mistake in the program.
    """
    gc.freeze()  # later collections skip what the imports have created
    gc.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale is
        raw: io.IOBase = sys.stdout.buffer
        # With PYTHONUNBUFFERED, stdout has no buffer: what a short write leaves over would be lost.
        if isinstance(raw, io.RawIOBase) and sys.stdout is sys.__stdout__:
            buffer = io.BufferedWriter(raw)
            sys.stdout = io.TextIOWrapper(buffer, encoding="utf-8", line_buffering=True)
    try:
        with converted_errors():
            command()
            # Flush here: errors during the shutdown of the interpreter are not reported.
            _flush_stdout()
    except (UserError, Interruption) as error:
        print_error(str(error) if isinstance(error, UserError) else "interrupted")
        sys.exit(error.exit_status)
    except BrokenPipeError:  # the reader has exited, as `head` does
        sys.exit(128 + signal.SIGPIPE)
    finally:
        try:
            _flush_stdout()
        except OSError:  # the interpreter would report this error again at its shutdown
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_stdout() -> None:
    if sys.stdout is not None:  # closed with >&-
        sys.stdout.flush()


@contextmanager
def open_output(
    out: str, default: Path, inputs: Sequence[Path] = ()
) -> Iterator[tuple[TextIO, list[Path]]]:
    """Open the file `out`, or the default if `out` is empty; it appears when it is complete.

    Only a file that `out` names is replaced. `-` is stdout. Yield the stream and the paths that are
    written.
    """
    if out != "-":
        with (
            Outputs.files([Path(out or default)], inputs, replaces=bool(out)) as outputs,
            outputs.written() as [temporary],
            temporary.open("w", encoding="utf-8", newline="\n") as stream,
        ):
            yield stream, outputs.paths
    elif sys.stdout is None:
        raise UserError("there is no stdout to write to; name a file with out=")
    else:
        yield sys.stdout, []
        sys.stdout.flush()


def parse_folders(names: str) -> list[Path]:
    """Split an argument into folders at spaces, unless it names an existing folder."""
    if os.path.isdir(names):  # Path.is_dir raises on a text longer than any path
        return [Path(names)]
    try:
        return [Path(name) for name in shlex.split(names)]
    except ValueError as error:
        raise UserError(f"{names}: cannot be split into folders: {error}") from None
