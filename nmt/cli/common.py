"""What all commands share: arguments, exit status, output file.

The arguments `key=value` of a command are declared once, as a `checked_dataclass`. Each field has a
docstring; fields without a default are required. `--help` prints the docstring of the module and of
each field. The keys of a `group` are given as `decoding.beam_size=5`. Their values stay text: the
command combines them with other settings before it checks them.
"""

import gc
import io
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import IO, Any, TypeVar, get_args

from pydantic import Field
from pydantic.fields import FieldInfo

from nmt.base.errors import DiskError, UserError, disk_errno_in
from nmt.base.files import writing
from nmt.base.log import converted_errors, print_error
from nmt.base.outputs import Outputs
from nmt.base.signals import Interruption
from nmt.config import extra, from_mapping, leaf_fields, unknown_key

Arguments = TypeVar("Arguments")

HELP_FLAGS = {"-h", "--help"}
_STDOUT = Path("/dev/stdout")  # for error messages


def group(kind: type[Any]) -> Any:
    """Declare arguments `<group>.<key>=VALUE` for the keys of a configuration dataclass."""
    extras: dict[str, Any] = {"group": kind}
    return Field(default_factory=dict, json_schema_extra=extras)


def parse_arguments(kind: type[Arguments], arguments: Sequence[str] | None = None) -> Arguments:
    """Parse arguments (default: the command line) into a dataclass; `--help` prints help and exits.

    Raises:
        UserError: a key is unknown or missing, or a value is of the wrong type or out of bounds.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if HELP_FLAGS & set(given):
        print_help(kind.__module__, help_lines(kind))
        raise SystemExit(0)
    fields = leaf_fields(kind)
    known = [key for name, field in fields.items() for key in _keys(name, field)]
    values: dict[str, Any] = {}
    for argument in given:
        key, value = split_argument(argument)
        if key not in known:
            raise UserError(f"{key} is not a key; {unknown_key(key, known)}")
        name, _, inner = key.partition(".")
        if inner:
            values.setdefault(name, {})[inner] = value
        else:
            values[name] = value
    for name, field in fields.items():
        if field.is_required() and not values.get(name):
            raise UserError(f"{name}= is missing (for make: {name.upper()}=): {field.description}")
    return from_mapping(kind, values, "arguments")


def split_argument(argument: str) -> tuple[str, str]:
    """Split `key=value`."""
    key, equals, value = argument.partition("=")
    if not equals or key.startswith("-"):
        raise UserError(f"{argument!r} is not key=value; --help lists the keys")
    return key, value


def _keys(name: str, field: FieldInfo) -> list[str]:
    inner = extra(field, "group")
    return list(leaf_fields(inner, f"{name}.")) if inner else [name]


def help_lines(kind: type[Any]) -> list[str]:
    """Return the lines of `--help` for the fields of a dataclass of arguments."""
    lines = []
    for name, field in leaf_fields(kind).items():
        doc = field.description or ""
        if extra(field, "group"):
            keys = ", ".join(key.partition(".")[2] for key in _keys(name, field))
            lines += help_entry(f"{name}.KEY", "VALUE", f"{doc} Keys: {keys}.")
            continue
        if not field.is_required() and field.default not in ("", None):
            doc += f" Default: {plain_text(field.default)}."
        lines += help_entry(name, _placeholder(field.annotation), doc)
    return lines


def _placeholder(hint: Any) -> str:
    """Describe the values of a type."""
    kind = get_args(hint)[0] if isinstance(hint, UnionType) else hint  # X of `X | None`
    if issubclass(kind, Enum):
        return " or ".join(kind.__members__)
    return {bool: "true or false", str: "TEXT"}.get(kind, "NUMBER")


def plain_text(value: Any) -> str:
    """Return a value as it is given on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "name", value))


def help_entry(key: str, value: str, doc: str) -> list[str]:
    """Return the lines of `--help` for one argument."""
    return [f"  {key}={value}", textwrap.indent(textwrap.fill(doc, 92), " " * 6)]


def print_help(module: str, lines: Sequence[str]) -> None:
    """Print `--help` on stdout: the docstring of a command's module, and lines on its arguments."""
    with open_output(None) as out:
        print(str(sys.modules[module].__doc__).strip(), "", *lines, sep="\n", file=out)


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
        print_error(str(DiskError(_STDOUT, number)))  # only errors of `print` name no file
        sys.exit(UserError.exit_status)
    finally:
        try:
            _flush_stdout()
        except OSError:  # the interpreter would report this error again at its shutdown
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush_stdout() -> None:
    if sys.stdout is not None:  # closed with >&-
        sys.stdout.flush()


@contextmanager
def output(out: str, default: Path, inputs: Sequence[Path]) -> Iterator[Outputs | None]:
    """Check and lock the file `out`, or the default if `out` is empty; `-` is stdout, None.

    Only a file that `out` names is replaced.
    """
    if out == "-":
        yield None
    else:
        with Outputs.files([Path(out or default)], inputs, replaces=bool(out)) as outputs:
            yield outputs


@contextmanager
def open_output(outputs: Outputs | None) -> Iterator[IO[str]]:
    """Open the only file of `outputs`, which appears when it is complete; None is stdout."""
    if outputs is not None:
        with (
            outputs.written() as [temporary],
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
