"""Conversion of configuration dataclasses from and to plain values and YAML files."""

import difflib
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from nmt.base.errors import UserError
from nmt.base.files import check_readable, write_texts
from nmt.config.fields import check_effects, leaf_fields

_MAX_KIB = 64
_MAX_DEPTH = 16  # PyYAML takes minutes to parse some thousand levels
_MAX_CHARACTERS = 2_000  # Python refuses to format an integer of more than 4,300 digits


def from_mapping(
    kind: type[Any], values: Any, origin: str, prefix: str = "", advice: str = ""
) -> Any:
    """Build an instance of a configuration dataclass from plain values.

    Args:
        kind: the dataclass.
        values: a dictionary; missing keys take their default.
        origin: where the values come from; error messages begin with it.
        prefix: put before keys in error messages, such as `decoding.`.
        advice: put after the error of an unknown key.

    Raises:
        UserError: an unknown key, a value of the wrong type or out of bounds, or values that do
            not fit together.
    """
    try:
        config = TypeAdapter(kind).validate_python(values)
        check_effects(config, prefix)
        return config
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = prefix + ".".join(map(str, problem["loc"]))
        reason = f"{key}={problem['input']}: {problem['msg'].removeprefix('Value error, ')}"
        if problem["type"] == "unexpected_keyword_argument":
            reason = f"{key} is not a key; {unknown_key(key, leaf_fields(kind, prefix))}{advice}"
        raise UserError(f"{origin}: {reason}") from None
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None


def unknown_key(key: str, known: Collection[str]) -> str:
    """Describe the fix for an unknown key: the nearest known keys, or all keys of its group."""
    group, _, name = key.rpartition(".")
    names = {other: other.rpartition(".")[2] for other in known}
    nearest = difflib.get_close_matches(name, names.values(), 1, 0.8)
    near = [other for other in known if names[other] in nearest]
    level = [other for other in known if other.count(".") == key.count(".")]
    near = near or difflib.get_close_matches(key, level, 1, 0.75)
    if any(other.startswith(f"{key}.") for other in known):
        group = key
    elif near:
        near = [other for other in near if other.startswith(f"{group}.")] or near
        return f"did you mean {' or '.join(near)}?"
    if siblings := [other for other in known if other.startswith(f"{group}.")]:
        return f"the keys of {group} are {', '.join(other[len(group) + 1 :] for other in siblings)}"
    tops = dict.fromkeys(other.partition(".")[0] for other in known)
    return f"the keys are {', '.join(top if top in known else f'{top}.…' for top in tops)}"


def to_plain(config: Any) -> dict[str, Any]:
    """Return a configuration dataclass as plain dictionaries; enums become their names."""
    return to_jsonable_python(config)


def to_yaml(config: Any) -> str:
    """Return a configuration dataclass as YAML text."""
    return yaml.safe_dump(to_plain(config), sort_keys=False, allow_unicode=True)


def save_config(config: Any, path: Path) -> None:
    """Write a configuration dataclass as YAML, atomically."""
    write_texts({path: to_yaml(config)})


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """A loader that rejects repeated keys, and values that would need much time or memory.

    Dates remain text.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        character: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Check the next value before it is read."""
        event = self.peek_event()
        length = len(getattr(event, "value", ""))
        problems = {
            "is nested too deeply": len(self.states) > _MAX_DEPTH,  # one state per open collection
            "has an anchor or an alias, & or *": getattr(event, "anchor", None),
            "has a tag, !": getattr(event, "tag", None),  # PyYAML fails in many ways for odd values
            f"has a value of more than {_MAX_CHARACTERS:,} characters": length > _MAX_CHARACTERS,
        }
        for problem in filter(problems.get, problems):
            line = event.start_mark.line + 1
            raise UserError(f"{self.name}: line {line} {problem}; only plain values are allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a dictionary; UserError if a key is repeated."""
        for name, count in Counter(str(key.value) for key, _ in node.value).items():
            if count > 1:
                raise UserError(f"{self.name}: duplicate key {name}; remove one of them")
        return super().construct_mapping(node, deep)


def load_values(path: Path) -> dict[str, Any]:
    """Read a YAML file of untrusted origin, without checking its keys.

    Raises:
        UserError: the file is too large, or is not a YAML mapping of plain values.
    """
    check_readable(path)
    if path.stat().st_size > _MAX_KIB * 1024:
        raise UserError(f"{path}: is larger than {_MAX_KIB} KiB, so it is not a configuration")
    try:
        with path.open(encoding="utf-8") as stream:
            values = _PlainLoader(stream).get_single_data()
    # For odd bytes and values, PyYAML raises ValueError or OverflowError instead of YAMLError.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: has no keys, so it is not a configuration")
    return values


def load_config(kind: type[Any], path: Path) -> Any:
    """Read a YAML file written by `save_config`; `kind` is the dataclass."""
    return from_file_values(kind, load_values(path), path)


def from_file_values(kind: type[Any], values: Any, path: Path) -> Any:
    """Build an instance of a configuration dataclass from the values of a file."""
    advice = "; if an earlier version of nmt wrote the file, remove this key from it"
    return from_mapping(kind, values, str(path), advice=advice)


def differing_values(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys whose values differ, with both values; a missing one is "absent"."""
    one, other = flattened(first), flattened(second)
    keys = sorted(one.keys() | other.keys())
    pairs = {key: (one.get(key, "absent"), other.get(key, "absent")) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        flat.update(flattened(value, f"{key}.") if isinstance(value, Mapping) else {key: value})
    return flat
