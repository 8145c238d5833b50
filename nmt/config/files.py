"""Conversion of configuration dataclasses from and to mappings and YAML files."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from nmt.base.errors import UserError, first_line
from nmt.base.files import atomic_writer
from nmt.base.plain_yaml import read_plain_yaml
from nmt.config.fields import leaf_fields


def writable_schema(kind: type[Any]) -> DictConfig:
    """Structured schema of a dataclass that accepts presets.

    OmegaConf marks nodes of frozen dataclasses read-only, which would reject every preset;
    instances made from the schema are frozen all the same.
    """
    schema: DictConfig = OmegaConf.structured(kind)
    _clear_readonly(schema)
    return schema


def _clear_readonly(node: DictConfig) -> None:
    OmegaConf.set_readonly(node, None)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig):
            _clear_readonly(child)


def from_mapping(
    kind: type[Any], values: Mapping[str, Any] | DictConfig, origin: str, prefix: str = ""
) -> Any:
    """Build an instance of dataclass `kind` from plain values.

    Args:
        kind: a configuration dataclass.
        values: its values; missing ones have their default.
        origin: where they are from, the beginning of error messages.
        prefix: group of `kind` with a dot, such as `decoding.`, for error messages.

    Raises:
        UserError: an unknown key, a value of the wrong type, or values that do not fit together.
    """
    try:
        return OmegaConf.to_object(OmegaConf.merge(writable_schema(kind), values))
    except OmegaConfBaseException as error:
        key = prefix + (error.full_key or "")
        reason = f": {first_line(error)}"
        if isinstance(error, ConfigKeyError):
            known = [known for known, _ in leaf_fields(kind, prefix)]
            reason = f" is not a key; {unknown_key(key, known)}"
        raise UserError(f"{origin}: {key}{reason}") from None
    except UserError as error:
        raise UserError(f"{origin}: {error}") from None


def unknown_key(key: str, known: Iterable[str]) -> str:
    """Describe the fix for an unknown key: the nearest known keys, or all keys of its group."""
    known = list(known)
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
    """A configuration dataclass as plain dictionaries, with the names of enums."""
    plain: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    return {str(key): value for key, value in plain.items()}


def to_yaml(config: Any) -> str:
    """A configuration dataclass as YAML text."""
    return OmegaConf.to_yaml(OmegaConf.create(to_plain(config)))


def save_config(config: Any, path: Path) -> None:
    """Write a configuration dataclass as YAML, atomically."""
    with atomic_writer(path) as out:
        out.write(to_yaml(config))


def load_values(path: Path) -> DictConfig:
    """Read a YAML file of untrusted origin without fitting it to a dataclass."""
    text = read_plain_yaml(path)
    try:
        values = OmegaConf.create(text)
    except Exception as error:  # PyYAML raises many types
        raise UserError(f"{path}: is not valid YAML: {error}") from None
    if not isinstance(values, DictConfig):
        raise UserError(f"{path}: has no keys, so it is not a configuration")
    return values


def load_config(kind: type[Any], path: Path) -> Any:
    """Read a YAML file written by `save_config` into dataclass `kind`."""
    return from_mapping(kind, load_values(path), str(path))


def differing_values(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ between two nested mappings, with both values or `absent`."""
    one, other = flattened(first), flattened(second)
    pairs = {
        key: (one.get(key, "absent"), other.get(key, "absent"))
        for key in sorted(one.keys() | other.keys())
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(flattened(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat
