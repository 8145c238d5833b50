"""Composition of the configuration from presets and the command line, by Hydra."""

import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.log import converted_errors, print_error, print_line
from nmt.base.system import require_package
from nmt.cli.common import (
    HELP_FLAGS,
    help_entry,
    plain_text,
    print_help,
    run_command,
    split_argument,
)
from nmt.config import (
    Config,
    SourceConfig,
    differing_values,
    from_mapping,
    leaf_fields,
    to_plain,
    unknown_key,
    with_row,
)
from nmt.runs.multirun import run_job

CONFIG_FOLDER = Path(__file__).resolve().parents[2] / "conf"

_MAX_FOLDER_NAME = 120
_SWEEP_FLAGS = {"--multirun", "-m"}
_HYDRA_ARGUMENTS = (*_SWEEP_FLAGS, "--cfg", "job", "--resolve")
_SWEEP_KEYS = ("cluster", "sweep")
_PLUGINS = {
    "cluster=parallel": "hydra_joblib_launcher",
    "cluster=ray": "hydra_joblib_launcher",
    "sweep=search": "hydra_optuna_sweeper",
}
_LISTS = ("run.accept_changes",)  # its commas never separate the values of a sweep
_COMMAND_LINE = "NMT_COMMAND_LINE"  # variable with the user's command line, for jobs of a scheduler


def combination(overrides: list[str]) -> str:
    """Name the folder of one job of a sweep after the overrides that vary.

    Keys with one value on the command line are left out. A slash becomes `_`, and a name is cut
    after 120 characters; a changed name ends with a hash of the original.
    """
    given = json.loads(os.environ.get(_COMMAND_LINE, "null")) or sys.argv
    parsed = OverridesParser.create().parse_overrides([one for one in given[1:] if "=" in one])
    varies = {one.get_key_element(): one.is_sweep_override() for one in parsed}  # the last counts
    varying = ",".join(sorted(o for o in overrides if varies.get(o.split("=")[0], True))) or "all"
    safe = varying.replace("/", "_")
    if safe == varying and len(safe) <= _MAX_FOLDER_NAME:
        return safe
    return f"{safe[:_MAX_FOLDER_NAME]}-{hashlib.sha256(varying.encode()).hexdigest()[:8]}"


OmegaConf.register_new_resolver("combination", combination, replace=True)
ConfigStore.instance().store(name="schema", node=to_plain(Config()))


def presets() -> dict[str, list[str]]:
    """Return the names of the presets of each group of `conf/`."""
    folders = sorted(path for path in CONFIG_FOLDER.iterdir() if path.is_dir())
    return {path.name: sorted(file.stem for file in path.glob("*.yaml")) for path in folders}


def check_overrides(arguments: Sequence[str]) -> None:
    """Raise a UserError if an argument is not `key=value`, or its key or preset is unknown."""
    known, groups = list(leaf_fields(Config)), presets()
    for argument in (each.lstrip("+~") for each in arguments):
        if argument in _HYDRA_ARGUMENTS or argument.startswith(("hydra.", "hydra/")):
            continue
        key, value = split_argument(argument)
        if key == "run.folder" and value.strip("'\""):
            raise UserError("run.folder is set by sweeps; use run.outputs and run.name")
        if plugin := _PLUGINS.get(argument):
            require_package(argument, f"hydra_plugins.{plugin}", "sweeps")
        if key in groups:
            _check_presets(key, value, groups[key])
        elif not any(f"{key}.".startswith(f"{k}.") or k.startswith(f"{key}.") for k in known):
            raise UserError(f"{key} is not a key; {unknown_key(key, [*known, *groups])}")


def _check_presets(group: str, value: str, names: list[str]) -> None:
    if group in ("experiment", "sweep", "cluster"):  # null, the default, deselects
        names = [*names, "null"]
    if group == "tracking":  # several at once, as in tracking=[wandb,tensorboard]
        value = value.replace("[", "").replace("]", "")
    for name in map(str.strip, value.split(",")):  # several in a sweep
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            fix = f"did you mean {near[0]}?" if near else f"the presets are {', '.join(names)}"
            raise UserError(f"{group}={one_line(name)} is not a preset; {fix}")


def _is_sweep(arguments: Sequence[str]) -> bool:
    return bool(_SWEEP_FLAGS.intersection(arguments))


def _check_sweep(arguments: Sequence[str]) -> None:
    """Raise a UserError for arguments that have an effect only in a sweep."""
    for argument in arguments:
        key, _, value = argument.lstrip("+~").partition("=")
        if key in _SWEEP_KEYS and value.strip("'\"") not in ("null", "", "0"):
            raise UserError(
                f"{argument} has no effect without --multirun: run"
                f" `python -m nmt.cli.train --multirun {argument} …`, or make sweep SWEEP=NAME"
            )


def _check_multirun(has_sweeps: bool) -> None:
    """Raise a UserError if this command or process cannot start a sweep."""
    if not has_sweeps:
        raise UserError("--multirun is an argument of nmt.cli.train only")
    if "RANK" in os.environ:
        raise UserError("--multirun cannot be combined with torchrun; start torchrun for each run")


def _report_overruled(arguments: Sequence[str]) -> None:
    """Print the keys in which the experiment overrules presets of the command line."""
    without = [argument for argument in arguments if not argument.startswith("experiment=")]
    groups = presets().keys() & {field.name for field in fields(Config)}
    chosen = [argument for argument in without if argument.partition("=")[0] in groups]
    if not chosen or without == list(arguments) or os.environ.get("RANK", "0") != "0":
        return
    both: list[Any] = [OmegaConf.to_container(_composed(each)) for each in (without, arguments)]
    for preset in chosen:
        group = preset.partition("=")[0]
        differing = differing_values(*(composed[group] for composed in both))
        overruled = [f"{group}.{k}={new} instead of {old}" for k, (old, new) in differing.items()]
        if overruled:
            print_line(f"{preset}: the experiment sets {', '.join(overruled)}")


def literal(arguments: Sequence[str]) -> list[str]:
    """Quote the values of text keys, so that Hydra takes characters such as `$` and `=` literally.

    Values that are quoted already, and lists of a sweep (values between commas), are unchanged.
    """
    is_sweep, quoted = _is_sweep(arguments), []
    leaves, entry_fields = leaf_fields(Config), leaf_fields(SourceConfig)
    # Dictionaries whose entries are named by the user, such as `corpus.sources`.
    tables = tuple(f"{key}." for key, field in leaves.items() if field.default == {})
    for argument in arguments:
        key, _, value = argument.partition("=")
        is_entry = f"{key}.".startswith(tables)
        prefix = "++" if is_entry else ""  # Hydra requires this for a new key
        field = entry_fields.get(key.rpartition(".")[2]) if is_entry else leaves.get(key)
        is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        is_list = is_sweep and "," in value and not os.path.exists(value) and key not in _LISTS
        if field and field.annotation is str and not (is_quoted or is_list):
            # A backslash is special only before an interpolation, a quote and the end.
            value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
            quoted.append(f"{prefix}{key}={QuotedString(value, Quote.single).with_quotes()}")
        else:
            quoted.append(prefix + argument)
    return quoted


def _help_lines(composed: DictConfig, groups: Sequence[str]) -> list[str]:
    """Return the lines of `--help`: presets, and keys with their values and documentation."""
    lines = ["Presets:"]
    for group, names in presets().items():
        lines += help_entry(group, "NAME", ", ".join(names))
    for field in fields(Config):
        if not groups or field.name in groups:
            kind: Any = field.type
            lines += ["", f"{field.name}: {str(kind.__doc__).splitlines()[0]}"]
            for key, leaf in leaf_fields(kind, f"{field.name}.").items():
                value = plain_text(OmegaConf.select(composed, key))
                lines += help_entry(key, value, leaf.description or "")
    return lines


def to_config(composed: DictConfig) -> Config:
    """Convert a composed configuration to the dataclass; a job of a sweep gets its own folder."""
    plain: Any = OmegaConf.to_container(composed, resolve=True)
    config: Config = from_mapping(Config, plain, "configuration")
    if config.run.row:
        config = with_row(config, config.run.row)
    if folder := _job_folder():
        config = replace(config, run=replace(config.run, folder=str(folder)))
    return config


def _job_folder() -> Path | None:
    """Return the run folder of a job of a sweep; None outside of sweeps."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return None
    return Path(HydraConfig.get().sweep.dir, HydraConfig.get().sweep.subdir)


def compose_config(overrides: Sequence[str]) -> Config:
    """Compose a configuration from presets and keys; UserError for arguments of sweeps."""
    if flags := [each for each in overrides if each in _HYDRA_ARGUMENTS]:
        raise UserError(f"{flags[0]} is not an argument of this command; use nmt.cli.train")
    _check_sweep(overrides)
    with _hydra_errors():
        return to_config(_composed(overrides))


def _composed(overrides: Sequence[str]) -> DictConfig:
    check_overrides(overrides)
    with hydra.initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        return hydra.compose("config", literal(overrides))


@contextmanager
def _hydra_errors() -> Iterator[None]:
    """Convert errors of Hydra and its launchers to UserError; `run_job` handles errors of runs."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:  # some are an OSError as well
        cause = error.__cause__ or error.__context__
        raise UserError(first_line(error) + (f": {first_line(cause)}" if cause else "")) from None
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:  # submitit, joblib and Ray raise many types
        if not _is_sweep(sys.argv):
            raise
        raise UserError(
            f"the sweep ended early: {type(error).__name__}: {one_line(error)}; the same command"
            " continues it, and `make sweep-report` shows what is complete"
        ) from error


def run_composed(
    command: Callable[[Config], float | None], groups: Sequence[str] = (), has_sweeps: bool = False
) -> None:
    """Compose the configuration from `conf/` and the command line, and run `command` with it.

    `--help` prints the docstring of the command's module, the presets, and the keys of `groups`
    (default: all). If `has_sweeps`, --multirun is accepted, and the keys of sweeps require it.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # without it, Hydra prints a traceback and exits with 1
    # Hydra takes --multirun only before the keys.
    sys.argv[1:] = literal(sorted(sys.argv[1:], key=lambda each: each not in _SWEEP_FLAGS))
    os.environ[_COMMAND_LINE] = json.dumps(sys.argv)

    @hydra.main(version_base="1.3", config_path=str(CONFIG_FOLDER), config_name="config")
    def main(composed: DictConfig) -> float | None:
        if folder := _job_folder():
            return run_job(folder, lambda: command(to_config(composed)), composed.run.dry_run)
        try:
            with converted_errors():
                return command(to_config(composed))
        except UserError as error:  # Hydra would add a line to the message
            print_error(str(error))
            sys.exit(error.exit_status)

    def compose_and_run() -> None:
        arguments = sys.argv[1:]
        with _hydra_errors():
            if HELP_FLAGS & set(arguments):
                composed = _composed([one for one in arguments if one not in HELP_FLAGS])
                print_help(command.__module__, _help_lines(composed, groups))
            else:
                check_overrides(arguments)
                if _is_sweep(arguments):
                    _check_multirun(has_sweeps)
                elif not set(_HYDRA_ARGUMENTS).intersection(arguments):
                    if has_sweeps:
                        _check_sweep(arguments)
                    _report_overruled(arguments)
                main()

    run_command(compose_and_run)
