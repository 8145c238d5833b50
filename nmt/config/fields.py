"""Declaration, documentation and checks of configuration fields."""

import ast
import dataclasses
import inspect
import operator
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from nmt.base.errors import UserError
from nmt.base.files import is_plain_name

MAX_SEED = 2**32 - 1
MAX_TOKENS = 1_000_000

_COMPARISONS = {
    "at least": operator.ge,
    "above": operator.gt,
    "at most": operator.le,
    "below": operator.lt,
}


def bounded(default: Any, at_least: Any = None, at_most: Any = None, **metadata: Any) -> Any:
    """Declare a number with bounds; the keywords `above` and `below` declare exclusive ones."""
    above, below = metadata.pop("above", None), metadata.pop("below", None)
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return declared(default, bounds=given, **metadata)


def declared(default: Any, **metadata: Any) -> Any:
    """Declare a dataclass field with metadata.

    Args:
        default: the default value; a mapping is copied for each instance.
        metadata: `bounds`; `used_with=(field, *values)`, the values of another field with which
            this one has an effect; `free=True` if the field changes where and how fast a run works,
            but not its result.
    """
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Default value of a dataclass field."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def check_fields(config: Any, prefix: str) -> None:
    """Raise a UserError if a number is out of bounds, or a changed value has no effect.

    Args:
        config: a dataclass instance with fields as above.
        prefix: the group with a dot, such as `model.`, for messages.
    """
    for field in dataclasses.fields(config):
        value, key = getattr(config, field.name), prefix + field.name
        bounds = field.metadata.get("bounds", {})
        is_inside = isinstance(value, str) or all(
            _COMPARISONS[name](value, bound) for name, bound in bounds.items()
        )
        limits = " and ".join(f"{name} {bound:,}" for name, bound in bounds.items())
        require(is_inside, f"{key}={value} must be {limits}")
        if "used_with" in field.metadata and value != default_of(field):
            other, *wanted = field.metadata["used_with"]
            names = " or ".join(one.name for one in wanted)
            require(
                getattr(config, other) in wanted,
                f"{key}={value} has no effect without {prefix}{other}={names}: set that, or leave"
                f" out {key}",
            )


def require(condition: bool, message: str) -> None:
    """Raise a UserError with `message` unless `condition` holds."""
    if not condition:
        raise UserError(message)


def require_folder_name(key: str, value: str) -> None:
    """Raise a UserError unless `value` can be a folder name and is safe to print."""
    require(
        is_plain_name(value),
        f"{key}={value!r} cannot name a folder: it must be printable, without a slash, and not"
        " start with a dot",
    )


def is_language_code(text: str) -> bool:
    """Whether `text` is a language code that can be part of a file name."""
    return text.isalnum()


def leaf_fields(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Iterate over the dotted keys of a dataclass with their fields, groups expanded."""
    for each in dataclasses.fields(kind):
        default = default_of(each)
        if dataclasses.is_dataclass(default):
            yield from leaf_fields(type(default), f"{prefix}{each.name}.")
        else:
            yield prefix + each.name, each


def field_docs(kind: type[Any]) -> dict[str, str]:
    """Docstrings below the fields of a dataclass, including inherited fields."""
    docs: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        definition: Any = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        for statement, below in pairwise(definition.body):
            match statement, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(doc))):
                    docs[name] = " ".join(doc.split())
    return docs


def leaf_docs(kind: type[Any], prefix: str = "") -> dict[str, str]:
    """Documentation of all dotted keys of a dataclass, groups expanded."""
    docs: dict[str, str] = {}
    for name, doc in field_docs(kind).items():
        default = default_of(kind.__dataclass_fields__[name])
        if dataclasses.is_dataclass(default):
            docs.update(leaf_docs(type(default), f"{prefix}{name}."))
        else:
            docs[prefix + name] = doc
    return docs
