"""Declaration and documentation of configuration fields.

A configuration group is a `checked_dataclass`. The docstring below a field documents it.
"""

import dataclasses
from typing import Annotated, Any, dataclass_transform

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict

from nmt.base.errors import UserError
from nmt.base.files import is_plain_name

MAX_SEED = 2**32 - 1
MAX_TOKENS = 1_000_000

_CHECKS = ConfigDict(
    extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True, use_attribute_docstrings=True
)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def checked_dataclass(kind: type[Any]) -> Any:
    """Make a frozen dataclass whose values pydantic converts to their types and checks."""
    return pydantic.dataclasses.dataclass(kind, frozen=True, kw_only=True, config=_CHECKS)


def option(default: Any, **metadata: Any) -> Any:
    """Declare a field with metadata.

    Args:
        default: the default value; a dictionary is copied for each instance.
        metadata: bounds, as the arguments `ge`, `gt`, `le` and `lt` of `pydantic.Field`;
            `used_with=(field, *values)`, the values of another field with which this one has an
            effect; `free=True` if the field changes where and how fast a run works, but not its
            result.
    """
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default value of a dataclass field, or `dataclasses.MISSING`."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def leaf_fields(kind: Any, prefix: str = "") -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass by their dotted keys, groups expanded."""
    leaves: dict[str, dataclasses.Field[Any]] = {}
    for field in dataclasses.fields(kind):
        key = prefix + field.name
        is_group = dataclasses.is_dataclass(field.type)
        leaves.update(leaf_fields(field.type, f"{key}.") if is_group else {key: field})
    return leaves


def leaf_docs(kind: Any, prefix: str = "") -> dict[str, str]:
    """Return the documentation of the fields of a dataclass by their dotted keys."""
    docs: dict[str, str] = {}
    for name, field in kind.__pydantic_fields__.items():
        is_group = dataclasses.is_dataclass(field.annotation)
        doc = " ".join((field.description or "").split())
        key = prefix + name
        docs.update(leaf_docs(field.annotation, f"{key}.") if is_group else {key: doc})
    return docs


def check_effects(config: Any, prefix: str = "") -> None:
    """Raise a UserError if a value differs from its default but has no effect (`used_with`)."""
    for field in dataclasses.fields(config):
        value, key = getattr(config, field.name), prefix + field.name
        if dataclasses.is_dataclass(value):
            check_effects(value, f"{key}.")
        elif "used_with" in field.metadata and value != default_of(field):
            other, *wanted = field.metadata["used_with"]
            require(
                getattr(config, other) in wanted,
                f"{key}={value} has no effect without {prefix}{other}={' or '.join(wanted)}: set"
                f" that, or leave out {key}",
            )


def require(condition: bool, message: str) -> None:
    """Raise a UserError with `message` unless `condition` holds."""
    if not condition:
        raise UserError(message)


def _check_folder_name(name: str) -> str:
    if not is_plain_name(name):
        raise ValueError("must be printable, without a slash, and not start with a dot")
    return name


FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""Text that can name a folder and is safe to print."""


def is_language_code(text: str) -> bool:
    """Return whether `text` is a language code that can be part of a file name."""
    return text.isalnum()
