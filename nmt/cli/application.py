"""Declare a command as a Hydra application on a structured configuration of its own.

The keys of a command are the fields of a `checked_dataclass`. Each field has a docstring; fields
without a default are required. Hydra composes the values; pydantic then converts and checks them.
`--help` prints the docstring of the module and that of each field.
"""

import functools
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from nmt.base.errors import UserError, first_line
from nmt.base.log import log_to_hydra
from nmt.cli.hydra_errors import VERSION_BASE, converted_hydra_errors
from nmt.config import extra, flattened, from_mapping, leaf_fields

CONFIG_FOLDER = Path(__file__).resolve().parents[2] / "conf"

_MISSING = "???"
_MAKE = {"folder": "FROM", "initial_model": "MODEL"}
"""Variables of the Makefile for required keys of another name."""
_NO_PRESETS = "pkg://hydra.conf"  # a folder that is on the search path of all applications

# The settings of Hydra that all commands share; a defaults list names them as `application`.
_SETTINGS = {
    "defaults": [
        {"override hydra/job_logging": "none"},
        {"override hydra/hydra_logging": "quiet"},
    ],
    "hydra": {
        "help": {"app_name": "nmt", "template": "${nmt.help:}"},
        # Hydra writes no files of its own unless hydra.run.dir names a folder for them.
        "run": {"dir": "."},
        "output_subdir": "${nmt.output_subdir:${hydra.run.dir}}",
        "job": {"chdir": False},
    },
}
# Messages of Hydra and of libraries go to stderr if hydra.verbose asks for them.
_LOGGING = {
    "version": 1,
    "formatters": {"named": {"format": "%(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "named"}},
    "root": "${nmt.root_logger:${hydra.verbose}}",
    "disable_existing_loggers": False,
}


def _output_subdir(folder: str) -> str | None:
    return None if folder == "." else ".hydra"


def _root_logger(verbose: Any) -> dict[str, Any] | None:
    return {"level": "WARNING", "handlers": ["stderr"]} if verbose else None


# Hydra copies its store of configurations for each lookup, but copies what it loads from it, too.
ConfigStore.__deepcopy__ = lambda store, _memo: store  # type: ignore[attr-defined]
OmegaConf.register_new_resolver("nmt.output_subdir", _output_subdir, replace=True)
OmegaConf.register_new_resolver("nmt.root_logger", _root_logger, replace=True)
ConfigStore.instance().store(name="application", node=_SETTINGS)
ConfigStore.instance().store(group="hydra/hydra_logging", name="quiet", node=_LOGGING)


class _JobError(BaseException):
    """Carries an error of a command past Hydra, which would print further lines."""


def application(
    kind: type[Any], primary: str = "", groups: Sequence[str] = ()
) -> Callable[[Callable[[Any], Any]], Callable[[], None]]:
    """Make a function a command, which composes its argument from the command line.

    Errors of the function are raised as they are; an invalid command line is a UserError.

    Args:
        kind: the checked dataclass of the keys.
        primary: the primary configuration, a file of `conf/`. The function then gets the composed
            configuration; without `primary`, it gets an instance of `kind`.
        groups: the fields of `kind` that `--help` shows (default: all).
    """

    def decorate(function: Callable[[Any], Any]) -> Callable[[], None]:
        module = sys.modules[function.__module__]
        name = primary or Path(str(module.__file__)).stem
        if not primary:
            node = OmegaConf.merge({"defaults": ["application", "_self_"]}, schema(kind))
            ConfigStore.instance().store(name=name, node=node)

        @functools.wraps(function)
        def job(composed: DictConfig) -> Any:
            log_to_hydra(HydraConfig.get().runtime.choices["hydra/job_logging"] != "none")
            try:
                return function(composed if primary else from_composed(kind, composed))
            except Exception as error:
                raise _JobError from error

        def help_text(*, _root_: DictConfig) -> str:
            lines = [str(module.__doc__).strip(), "", *_help_lines(kind, groups, _root_)]
            return "\n".join(lines).replace("$", "$$")  # Hydra replaces $NAME

        @functools.wraps(function)
        def main() -> None:
            OmegaConf.register_new_resolver("nmt.help", help_text, replace=True)
            folder = str(CONFIG_FOLDER) if primary else None
            try:
                with converted_hydra_errors(kind, folder, sys.argv[1:]):
                    hydra.main(folder or _NO_PRESETS, name, VERSION_BASE)(job)()
            except _JobError as error:
                failure = error.__cause__
            else:
                return
            # Raised here, because a cause of an exception must not also follow from it.
            raise failure or _JobError

        vars(main).update(kind=kind, groups=groups, configuration=name)  # for the documents
        return main

    return decorate


def group(kind: type[Any]) -> Any:
    """Declare keys `<group>.<key>` for the keys of a configuration dataclass.

    The command combines their values with other settings before it converts and checks them.
    """
    extras: dict[str, Any] = {"group": kind}
    return Field(default_factory=dict, json_schema_extra=extras)


def schema(kind: type[Any]) -> DictConfig:
    """Return the keys of a checked dataclass with their defaults; `???` stands for a required one.

    A dictionary that is empty by default, such as `corpus.sources`, takes new keys without `+`.
    """
    node = OmegaConf.create()
    for name, field in kind.__pydantic_fields__.items():
        default: Any = _MISSING
        if inner := extra(field, "group"):
            default = OmegaConf.create()
            for key in leaf_fields(inner):
                OmegaConf.update(default, key, None)
        elif not field.is_required():
            default = to_jsonable_python(field.get_default(call_default_factory=True))
        node[name] = default
    for key, field in leaf_fields(kind).items():
        if field.default == {}:
            OmegaConf.select(node, key)._set_flag("struct", False)
    return node


def from_composed(
    kind: type[Any], composed: DictConfig, changes: Mapping[str, Any] | None = None
) -> Any:
    """Convert a composed configuration, with changes of dotted keys, to its dataclass.

    Raises:
        UserError: a value is missing, of the wrong type or out of bounds.
    """
    try:
        values: Any = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{error.full_key}: {first_line(error)}") from None
    for key, value in (changes or {}).items():
        node, (*path, last) = values, key.split(".")
        for name in path:
            node = node.setdefault(name, {})
        node[last] = value
    flat = flattened(values)
    for key, field in leaf_fields(kind).items():
        value = flat.get(key)
        if field.is_required() and value in (_MISSING, "", None):
            doc = " ".join(str(field.description).split())
            raise UserError(f"{key}= is missing (for make: {_MAKE.get(key, key.upper())}=): {doc}")
        if field.annotation is str and key in flat and not isinstance(value, str | int):
            raise UserError(
                f"{key}={value} is not text: quote it for Hydra and for the shell, as in"
                f" \"{key}='…'\""
            )
        if extra(field, "group"):
            if not isinstance(values.setdefault(key, {}), dict):
                raise UserError(
                    f"{key}={value}: this command takes single keys of {key}, not presets: write"
                    f" {key}.KEY=VALUE, as in decoding.beam_size=1"
                )
            values[key] = {k: one for k, one in flattened(values[key]).items() if one is not None}
    return from_mapping(kind, values, "configuration")


def _help_lines(kind: type[Any], groups: Sequence[str], composed: DictConfig) -> list[str]:
    """Return the lines of `--help`: presets, and keys with their values and documentation."""
    loader, lines = GlobalHydra.instance().config_loader(), []
    given = [*composed.hydra.overrides.hydra]  # hydra.searchpath names further presets
    for name in loader.list_groups(""):
        presets = loader.get_group_options(name, overrides=given)
        if name != "hydra" and presets:
            lines += _help_entry(name, "NAME", ", ".join(presets))
    lines = ["Presets:", *lines, ""] if lines else []
    shown = {group: kind.__pydantic_fields__[group] for group in groups or kind.__pydantic_fields__}
    for name, field in shown.items():
        inner: Any = field.annotation
        if not hasattr(inner, "__pydantic_fields__"):
            lines += _field_lines(name, field, composed)
            continue
        lines.append(f"{name}: {str(inner.__doc__).splitlines()[0]}")
        for key, leaf in leaf_fields(inner, f"{name}.").items():
            lines += _field_lines(key, leaf, composed)
        lines.append("")
    return [*lines, "Flags of Hydra: --hydra-help"]


def _field_lines(key: str, field: FieldInfo, composed: DictConfig) -> list[str]:
    doc = field.description or ""
    if inner := extra(field, "group"):
        return _help_entry(f"{key}.KEY", "VALUE", f"{doc} Keys: {', '.join(leaf_fields(inner))}.")
    value = OmegaConf.select(composed, key, default="")
    choices = _choices(field.annotation)
    if value in ("", None):
        value = choices
    elif isinstance(value, bool):
        value = str(value).lower()
    elif " or " in choices:
        doc += f" Values: {choices.replace(' or ', ', ')}."
    return _help_entry(key, value, doc)


def _choices(hint: Any) -> str:
    """Describe the values of a type."""
    kind = get_args(hint)[0] if isinstance(hint, UnionType) else hint  # X of `X | None`
    if issubclass(kind, Enum):
        return " or ".join(kind.__members__)
    return {bool: "true or false", str: "TEXT"}.get(kind, "NUMBER")


def _help_entry(key: str, value: object, doc: str) -> list[str]:
    """Return the lines of `--help` for one key."""
    return [
        f"  {key}={value}",
        *textwrap.wrap(doc, 98, initial_indent=" " * 6, subsequent_indent=" " * 6),
    ]
