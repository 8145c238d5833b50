"""Arguments of a command in the form `key=value`, declared once as a frozen dataclass.

Each field has a docstring, and bounds if it is a number; fields without a default are required.
`--help` prints the docstring of the module and of each field. The keys of a `group` are given as
`decoding.beam_size=5` and stay text: their owner combines them with other settings.
"""

import dataclasses
import sys
import textwrap
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from nmt.base.errors import UserError
from nmt.base.files import writing
from nmt.config import check_fields, default_of, field_docs, leaf_fields, unknown_key

Arguments = TypeVar("Arguments")

STDOUT = Path("/dev/stdout")
"""Path of stdout for error messages and for checks of disk space."""

HELP_FLAGS = {"-h", "--help"}


def group(kind: type[Any]) -> Any:
    """Declare arguments `<group>.<key>=VALUE` for the keys of a configuration dataclass."""
    return dataclasses.field(default_factory=dict, metadata={"group": kind})


def parse_arguments(kind: type[Arguments], arguments: Sequence[str] | None = None) -> Arguments:
    """Parse `key=value` arguments into a dataclass; `--help` prints the help and exits.

    Args:
        kind: the dataclass; see the module's docstring.
        arguments: the arguments; the default is the command line.

    Raises:
        UserError: an unknown key, a value of the wrong type or out of bounds, or a missing one.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if HELP_FLAGS & set(given):
        print_help(help_text(kind))
        raise SystemExit(0)
    fields: Any = dataclasses.fields(kind)  # type: ignore[arg-type]
    hints, values = get_type_hints(kind), dict[str, Any]()
    known = [key for field in fields for key in _keys(field)]
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or text.startswith("-"):
            raise UserError(
                f"{text!r} is not key=value; the keys are {', '.join(hints)} (--help explains them)"
            )
        if key not in known:
            raise UserError(f"{key} is not an argument; {unknown_key(key, known)}")
        name, _, inner = key.partition(".")
        if inner:
            values.setdefault(name, {})[inner] = value
        else:
            values[name] = _converted(key, value, hints[name])
    for field in fields:
        if default_of(field) is dataclasses.MISSING and not values.get(field.name):
            raise UserError(f"{field.name}= is missing; --help explains it")
    parsed = kind(**values)
    check_fields(parsed, "")
    return parsed


def _keys(field: dataclasses.Field[Any]) -> list[str]:
    inner = field.metadata.get("group")
    return [key for key, _ in leaf_fields(inner, f"{field.name}.")] if inner else [field.name]


def _converted(key: str, text: str, hint: Any) -> Any:
    """Convert the text of an argument to its type."""
    kind = _plain_type(hint)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        return kind[text] if issubclass(kind, Enum) else kind(text)
    except (KeyError, ValueError):
        raise UserError(f"{key}={text} is invalid: give {_form(kind)}") from None


def _plain_type(hint: Any) -> Any:
    """Return the type of `X` and of `X | None`."""
    return get_args(hint)[0] if isinstance(hint, UnionType) else hint


def _form(kind: type[Any]) -> str:
    if issubclass(kind, Enum):
        return " or ".join(member.name for member in kind)
    return {bool: "true or false", str: "TEXT"}.get(kind, "NUMBER")


def help_text(kind: type[Any]) -> str:
    """Return the text of `--help`: the docstrings of the module and of the fields."""
    docs, hints = field_docs(kind), get_type_hints(kind)
    lines = [(sys.modules[kind.__module__].__doc__ or "").strip(), ""]
    for field in dataclasses.fields(kind):
        name, doc, default = field.name, docs.get(field.name, ""), default_of(field)
        if "group" in field.metadata:
            names = (key.partition(".")[2] for key in _keys(field))
            lines += help_entry(f"{name}.KEY", "VALUE", f"{doc} Keys: {', '.join(names)}.")
            continue
        if default not in ("", None, dataclasses.MISSING):
            doc += f" Default: {plain_text(default)}."
        lines += help_entry(name, _form(_plain_type(hints[name])), doc)
    return "\n".join(lines)


def plain_text(value: Any) -> str:
    """Return a value as it is given on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(getattr(value, "name", value))


def help_entry(key: str, value: str, doc: str) -> list[str]:
    """Return the lines of `--help` for one argument."""
    return [f"  {key}={value}", textwrap.indent(textwrap.fill(doc, 92), " " * 6)]


def print_help(text: str) -> None:
    """Print the text of `--help` on stdout."""
    with writing(STDOUT):
        print(text, flush=True)
