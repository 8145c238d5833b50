"""Declaration and documentation of configuration fields.

A configuration group is a `checked_dataclass`. The docstring below a field documents it.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, dataclass_transform

import pydantic.dataclasses
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

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
    made = pydantic.dataclasses.dataclass(kind, frozen=True, kw_only=True, config=_CHECKS)
    for base in kind.__mro__[1:]:  # pydantic drops the documentation of inherited fields
        for name, field in getattr(base, "__pydantic_fields__", {}).items():
            own = made.__pydantic_fields__[name]
            own.description = own.description or field.description
    return made


def option(
    default: Any, *, used_with: tuple[Any, ...] = (), free: bool = False, **bounds: Any
) -> Any:
    """Declare a field of a `checked_dataclass`.

    Args:
        default: the default value.
        used_with: the name of another field, then the values of that field with which this one has
            an effect.
        free: whether the field changes where and how fast a run works, but not its result.
        bounds: the arguments `ge`, `gt`, `le`, `lt` and `max_length` of `pydantic.Field`.
    """
    extras: dict[str, Any] = {"used_with": used_with, "free": free}
    return Field(default, json_schema_extra=extras, **bounds)


def extra(field: FieldInfo, name: str) -> Any:
    """Return what a field declares as `name`, such as `free`; None if it declares nothing."""
    return field.json_schema_extra.get(name) if isinstance(field.json_schema_extra, dict) else None


def leaf_fields(kind: Any, prefix: str = "") -> dict[str, FieldInfo]:
    """Return the fields of a checked dataclass and of its groups, by their dotted keys."""
    leaves: dict[str, FieldInfo] = {}
    for name, field in kind.__pydantic_fields__.items():
        inner, key = field.annotation, prefix + name
        leaves.update(leaf_fields(inner, f"{key}.") if is_dataclass(inner) else {key: field})
    return leaves


def free_keys(kind: Any) -> tuple[str, ...]:
    """Return the dotted keys of the fields that are `free`; see `option`."""
    return tuple(key for key, field in leaf_fields(kind).items() if extra(field, "free"))


def check_effects(config: Any, prefix: str = "") -> None:
    """Raise a UserError if a value differs from its default but has no effect (`used_with`)."""
    for name, field in config.__pydantic_fields__.items():
        value, key = getattr(config, name), prefix + name
        if is_dataclass(value):
            check_effects(value, f"{key}.")
            continue
        for inner, each in value.items() if isinstance(value, dict) else ():
            if is_dataclass(each):
                check_effects(each, f"{key}.{inner}.")
        if (used_with := extra(field, "used_with")) and value != field.default:
            other, *wanted = used_with
            needed = " or ".join(str(each).lower() for each in wanted)  # `true`, as in YAML
            require(
                getattr(config, other) in wanted,
                f"{key}={value} has no effect without {prefix}{other}={needed}: set that, or"
                f" leave out {key} or the preset that sets it",
            )


def require(condition: bool, message: str) -> None:
    """Raise a UserError with `message` unless `condition` holds."""
    if not condition:
        raise UserError(message)


def _satisfies(is_valid: Callable[[str], bool], rule: str) -> AfterValidator:
    def check(text: str) -> str:
        if not is_valid(text):
            raise ValueError(f"must be {rule}")
        return text

    return AfterValidator(check)


SYMBOL_RULE = (
    "printable, in composed form (NFC), not empty, without white space, and none of the pieces"
    " <unk>, <s>, </s>, <pad> and <0x00> to <0xFF>, which sentencepiece adds"
)

_ADDED_PIECE = re.compile("<unk>|</?s>|<pad>|<0x[0-9A-F]{2}>")


def is_symbol(text: str) -> bool:
    """Return whether `text` satisfies SYMBOL_RULE, so that it can be one piece of a vocabulary."""
    is_plain = text.isprintable() and " " not in text and unicodedata.is_normalized("NFC", text)
    return bool(text) and is_plain and not _ADDED_PIECE.fullmatch(text)


FolderName = Annotated[
    str, _satisfies(is_plain_name, "printable, without a slash, and not start with a dot")
]
"""Text that can name a folder and is safe to print."""

Symbol = Annotated[str, _satisfies(is_symbol, SYMBOL_RULE)]
"""Text that can be one piece of a vocabulary."""


def are_languages(codes: Sequence[str]) -> bool:
    """Return whether `codes` are two different language codes."""
    return len(codes) == len(set(codes)) == 2 and all(map(is_language_code, codes))


def is_language_code(text: str) -> bool:
    """Return whether `text` is a language code for file names, such as `en` or `zh_Hans`."""
    return all(part.isalnum() for part in text.split("_"))
