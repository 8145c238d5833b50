"""Arguments of a command in the form `key=value`, declared once as a `checked_dataclass`.

Each field has a docstring; fields without a default are required. `--help` prints the docstring of
the module and of each field. The keys of a `group` are given as `decoding.beam_size=5` and stay
text: their owner combines them with other settings.
"""

import sys
import textwrap
from collections.abc import Sequence
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, get_args

from pydantic import Field
from pydantic.fields import FieldInfo

from nmt.base.errors import UserError
from nmt.cli.common import open_output
from nmt.config import extra, from_mapping, leaf_fields, unknown_key

Arguments = TypeVar("Arguments")

HELP_FLAGS = {"-h", "--help"}


def group(kind: type[Any]) -> Any:
    """Declare arguments `<group>.<key>=VALUE` for the keys of a configuration dataclass."""
    extras: dict[str, Any] = {"group": kind}
    return Field(default_factory=dict, json_schema_extra=extras)


def parse_arguments(kind: type[Arguments], arguments: Sequence[str] | None = None) -> Arguments:
    """Parse arguments, by default the command line, into a dataclass; `--help` prints and exits.

    Raises:
        UserError: an unknown key, a value of the wrong type or out of bounds, or a missing one.
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
    parsed: Arguments = from_mapping(kind, values, "arguments")
    return parsed


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
