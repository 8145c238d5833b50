"""Conversion of configuration dataclasses from and to plain values and YAML files."""

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from nmt.base.errors import UserError
from nmt.base.files import check_readable, write_texts
from nmt.config.fields import check_effects, leaf_docs

_MAX_BYTES = 64 * 1024
_MAX_DEPTH = 16  # PyYAML takes minutes to parse some thousand levels
_MAX_CHARACTERS = 2_000  # Python refuses to format an integer of more than 4,300 digits


def from_mapping(kind: type[Any], values: Any, origin: str, prefix: str = "") -> Any:
    """Build an instance of a configuration dataclass from plain values.

    Args:
        kind: the dataclass.
        values: a dictionary; missing values have their default.
        origin: where they are from, the beginning of error messages.
        prefix: group of `kind` with a dot, such as `decoding.`, for error messages.

    Raises:
        UserError: an unknown key, a value of the wrong type or out of bounds, or values that do
            not fit together.
    """
    try:
        config = TypeAdapter(kind).validate_python(values)
        check_effects(config, prefix)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = prefix + ".".join(map(str, problem["loc"]))
        reason = f"{key}={problem['input']}: {problem['msg'].removeprefix('Value error, ')}"
        if problem["type"] == "unexpected_keyword_argument":
            reason = f"{key} is not a key; {unknown_key(key, leaf_docs(kind, prefix))}"
        raise UserError(f"{origin}: {reason}") from None
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None
    return config


def unknown_key(key: str, known: Collection[str]) -> str:
    """Describe the fix for an unknown key: the nearest known keys, or all keys of its group."""
    group, _, name = key.rpartition(".")
    names = {other.rpartition(".")[2]: other for other in known}
    level = [other for other in known if other.count(".") == key.count(".")]
    if any(other.startswith(f"{key}.") for other in known):
        group = key
    elif near := (
        [other for other in known if other.rpartition(".")[2] == name]
        or difflib.get_close_matches(key, level, 1, 0.75)
        or [names[other] for other in difflib.get_close_matches(name, names, 1, 0.8)]
    ):
        return f"did you mean {' or '.join(near)}?"
    if siblings := [other for other in known if group and other.startswith(f"{group}.")]:
        return f"the keys of {group} are {', '.join(other[len(group) + 1 :] for other in siblings)}"
    tops = dict.fromkeys(other.partition(".")[0] for other in known)
    return f"the keys are {', '.join(top if top in known else f'{top}.…' for top in tops)}"


def to_plain(config: Any) -> dict[str, Any]:
    """Return a configuration dataclass as plain dictionaries, with the names of enums."""
    plain: dict[str, Any] = to_jsonable_python(config)
    return plain


def to_yaml(config: Any) -> str:
    """Return a configuration dataclass as YAML text."""
    return yaml.safe_dump(to_plain(config), sort_keys=False, allow_unicode=True)


def save_config(config: Any, path: Path) -> None:
    """Write a configuration dataclass as YAML, atomically."""
    write_texts({path: to_yaml(config)})


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader of plain values that rejects repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [str(key.value) for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {name}")
        return super().construct_mapping(node, deep)


def load_values(path: Path) -> dict[str, Any]:
    """Read a YAML file of untrusted origin without fitting it to a dataclass.

    Raises:
        UserError: the file is too large, is not a YAML mapping, or has tags, anchors or aliases.
    """
    check_readable(path)
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(f"{path}: is larger than {_MAX_BYTES // 1024} KiB; no configuration is")
    try:
        text = path.read_text(encoding="utf-8")
        _check_events(text, path)
        values = _PlainLoader(text).get_single_data()
    # PyYAML passes on ValueError and OverflowError for invalid characters and version numbers.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: has no keys, so it is not a configuration")
    return values


def _check_events(text: str, path: Path) -> None:
    """Reject what would take too much time or memory, before any object is constructed."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        length = len(getattr(event, "value", ""))
        problems = {
            "is nested too deeply": depth > _MAX_DEPTH,
            "has an anchor or an alias, & or *": getattr(event, "anchor", None),
            f"has a value of more than {_MAX_CHARACTERS:,} characters": length > _MAX_CHARACTERS,
        }
        for problem in filter(problems.get, problems):
            line = event.start_mark.line + 1
            raise UserError(f"{path}: line {line} {problem}; only plain values are allowed")


def load_config(kind: type[Any], path: Path) -> Any:
    """Read a YAML file written by `save_config` into dataclass `kind`."""
    return from_mapping(kind, load_values(path), str(path))


def differing_values(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return both values, or `absent`, of the dotted keys whose values differ."""
    one, other = flattened(first), flattened(second)
    keys = sorted(one.keys() | other.keys())
    pairs = {key: (one.get(key, "absent"), other.get(key, "absent")) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
