"""Flags and errors of Hydra on the command line."""

import difflib
import os
import re
import shlex
import sys
import traceback
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import hydra
from hydra._internal import utils as hydra_utils
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.system import require_package
from nmt.config import extra, leaf_fields, unknown_key

VERSION_BASE = "1.3"  # of Hydra's defaults

_FULL_ERROR = "HYDRA_FULL_ERROR"
_SWEEP_FLAGS = {"--multirun", "-m"}
_PLUGINS = {
    "hydra/launcher/joblib": "hydra_joblib_launcher",
    "hydra/sweeper/optuna": "hydra_optuna_sweeper",
}

_hydra_parser = hydra_utils.get_args_parser


def _parser() -> ArgumentParser:
    """Return Hydra's parser of flags, which may stand before, between and after the keys."""

    def error(message: str) -> NoReturn:
        raise UserError(f"{message}; --hydra-help lists the flags")

    parser: Any = _hydra_parser()
    parser.parse_args, parser.error = parser.parse_intermixed_args, error
    return parser


hydra_utils.get_args_parser = _parser
sys.modules["hydra.main"].get_args_parser = _parser  # type: ignore[attr-defined]


@contextmanager
def converted_hydra_errors(
    kind: type[Any], folder: str | None, overrides: Sequence[str]
) -> Iterator[None]:
    """Convert errors of Hydra and of its launchers to UserError.

    The message has the nearest known key or preset, else that of Hydra. If the user has set
    HYDRA_FULL_ERROR=1, the traceback is printed, too.

    Args:
        kind: the checked dataclass of the keys.
        folder: the folder of the presets.
        overrides: the arguments of the command line.

    Raises:
        UserError: the command line has no valid configuration, or a sweep has ended early.
    """
    is_full, is_sweep = os.environ.get(_FULL_ERROR), bool(_SWEEP_FLAGS.intersection(overrides))
    os.environ[_FULL_ERROR] = "1"  # Hydra raises its errors instead of printing them
    try:
        if is_sweep and "RANK" in os.environ:
            raise UserError("--multirun cannot be combined with torchrun; start torchrun per run")
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # submitit, joblib and Ray raise many types
        if is_full == "1":
            traceback.print_exc()
        # Hydra raises ValueError for flags, and for values of a group that are no text.
        if isinstance(error, HydraException | OmegaConfBaseException | ValueError):
            raise UserError(_explained(error, kind, folder, overrides)) from None
        if not is_sweep or isinstance(error, OSError):
            raise
        raise UserError(
            f"the sweep ended early: {type(error).__name__}: {one_line(error)}; the same command"
            " continues it, and `make sweep-report` shows what is complete"
        ) from error
    finally:
        os.environ.pop(_FULL_ERROR)
        if is_full is not None:
            os.environ[_FULL_ERROR] = is_full


def _explained(
    error: Exception, kind: type[Any], folder: str | None, overrides: Sequence[str]
) -> str:
    """Return an error of Hydra in one line, with what the user can do."""
    if isinstance(error, MissingConfigException) and "/" in str(error.missing_cfg_file):
        return _unknown_preset(error, folder)
    lines = [line.strip() for line in str(error).splitlines()]
    message = " ".join(line for line in lines if line not in ("", "^"))
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        if not equals:
            return f"{error.override!r} is not key=value; --help lists the keys"
        message = message.partition(" See https:")[0]
        quoted = f"{key}={QuotedString(value, Quote.single).with_quotes()}"
        in_shell = shlex.quote(quoted) if re.search(r'["$`\\\n!]', quoted) else f'"{quoted}"'
        return one_line(
            f"{error.override}: {message}; to take the value as it is, quote it for Hydra and for"
            f" the shell: {in_shell}"
        )
    for override in (one for one in overrides if "=" in one or one.startswith("~")):
        key = override.lstrip("+~").partition("=")[0].partition("@")[0]
        if f"'{key}'" in lines[0] and (problem := _unknown_key(key, kind, folder)):
            return problem
    cause = error.__cause__ or error.__context__
    return f"{message}: {first_line(cause)}" if cause else message


def _unknown_preset(error: MissingConfigException, folder: str | None) -> str:
    """Name the nearest preset, or all presets of the group."""
    group, _, name = str(error.missing_cfg_file).rpartition("/")
    if plugin := _PLUGINS.get(str(error.missing_cfg_file)):
        require_package(f"{group}={name}", f"hydra_plugins.{plugin}", "sweeps")
    options = error.options or _groups_and_presets(folder).get(group, [])
    near = difflib.get_close_matches(name, options, 1)
    fix = f"did you mean {near[0]}?" if near else f"the presets are {', '.join(options)}"
    return f"{group}={one_line(name)} is not a preset; {fix}"


def _unknown_key(key: str, kind: type[Any], folder: str | None) -> str:
    """Describe the fix for an unknown key; empty if the key is known, or is one of Hydra."""
    known = list(_groups_and_presets(folder))
    for name, field in leaf_fields(kind).items():
        inner = extra(field, "group")
        known += leaf_fields(inner, f"{name}.") if inner else [name]
    if key.startswith("hydra") or any(f"{one}.".startswith(f"{key}.") for one in known):
        return ""
    return f"{key} is not a key; {unknown_key(key, known)}"


def _groups_and_presets(folder: str | None) -> dict[str, list[str]]:
    if folder is None:
        return {}
    with hydra.initialize_config_dir(folder, version_base=VERSION_BASE):
        loader = GlobalHydra.instance().config_loader()
        return {name: loader.get_group_options(name) for name in loader.list_groups("")}
