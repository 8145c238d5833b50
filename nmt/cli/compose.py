"""Composition of the configuration of an experiment from presets and keys, by Hydra."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from nmt.base.errors import UserError
from nmt.base.log import print_line
from nmt.cli.application import CONFIG_FOLDER, from_composed, schema
from nmt.cli.hydra_errors import VERSION_BASE, converted_hydra_errors
from nmt.config import Config, differing_values, with_row
from nmt.runs import job_names
from nmt.runs.multirun import run_job

_EXPERIMENT = "config"  # the primary configuration of an experiment

ConfigStore.instance().store(name="schema", node=schema(Config))
job_names.register()  # also in the processes of launchers, which import this module


def compose_config(overrides: Sequence[str], changes: Mapping[str, Any] | None = None) -> Config:
    """Compose a configuration from presets and keys, with changes of dotted keys."""
    with converted_hydra_errors(Config, str(CONFIG_FOLDER), overrides):
        composed = _composed(overrides)
        _check_no_sweep(composed.hydra.runtime.choices)
        with open_dict(composed):
            del composed["hydra"]
        return to_config(composed, changes)


def presets(group: str) -> list[str]:
    """Return the presets of a group on the search path of the command."""
    given = [*HydraConfig.get().overrides.hydra]  # hydra.searchpath adds folders
    return GlobalHydra.instance().config_loader().get_group_options(group, overrides=given)


def _composed(overrides: Sequence[str]) -> DictConfig:
    """Compose a configuration; in a command with presets, from its primary configuration."""
    # HydraConfig outlives its application.
    is_running = GlobalHydra().is_initialized() and HydraConfig.initialized()
    running = HydraConfig.get() if is_running else None
    sources = running.runtime.config_sources if running else ()
    # The presets are those of the command, which --config-path may have replaced.
    if running and any(one.provider == "main" and one.schema == "file" for one in sources):
        path = [one for one in running.overrides.hydra if one.startswith("hydra.searchpath=")]
        given = [*overrides, *path]
        return hydra.compose(running.job.config_name, given, return_hydra_config=True)
    command = GlobalHydra.instance()
    outer, command.hydra = command.hydra, None  # Hydra has one search path at a time
    try:
        with hydra.initialize_config_dir(str(CONFIG_FOLDER), version_base=VERSION_BASE):
            return hydra.compose(_EXPERIMENT, list(overrides), return_hydra_config=True)
    finally:
        GlobalHydra.instance().hydra = outer


def to_config(composed: DictConfig, changes: Mapping[str, Any] | None = None) -> Config:
    """Convert a composed configuration to the dataclass; a job of a sweep gets its own folder."""
    config: Config = from_composed(Config, composed, changes)
    if config.run.folder:
        raise UserError("run.folder is set by sweeps; use run.outputs and run.name")
    if config.run.row:
        config = with_row(config, config.run.row)
    if folder := sweep_folder():
        config = replace(config, run=replace(config.run, folder=str(folder)))
    return config


def sweep_folder() -> Path | None:
    """Return the run folder of a job of a sweep; None outside of sweeps."""
    if not HydraConfig.initialized() or HydraConfig.get().mode is not RunMode.MULTIRUN:
        return None
    if HydraConfig.get().job.chdir:
        return Path(HydraConfig.get().runtime.output_dir)
    return Path(HydraConfig.get().sweep.dir, HydraConfig.get().sweep.subdir)


def run_composed(command: Callable[[Config], float | None], composed: DictConfig) -> float | None:
    """Run a command; in a sweep, run it as a job, whose failure does not end the sweep."""
    if folder := sweep_folder():
        return run_job(folder, lambda: command(to_config(composed)), composed.run.dry_run)
    _check_no_sweep(HydraConfig.get().runtime.choices)
    _report_overruled(job_names.task_overrides(HydraConfig.get()))
    return command(to_config(composed))


def _check_no_sweep(choices: Mapping[str, Any]) -> None:
    """Raise a UserError for presets that have an effect only in a sweep."""
    for key in ("sweep", "cluster"):
        if value := choices.get(key):
            raise UserError(
                f"{key}={value} has no effect without --multirun: run"
                f" `nmt train --multirun {key}={value} …`, or make sweep SWEEP=NAME"
            )


def _report_overruled(overrides: Sequence[str]) -> None:
    """Print the keys in which the experiment overrules presets of the command line."""
    without = [override for override in overrides if not override.startswith("experiment=")]
    groups = {field.name for field in fields(Config)}
    chosen = [override for override in without if override.partition("=")[0] in groups]
    if not chosen or len(without) == len(overrides) or os.environ.get("RANK", "0") != "0":
        return
    both: list[Any] = [OmegaConf.to_container(_composed(each)) for each in (without, overrides)]
    for preset in chosen:
        group = preset.partition("=")[0]
        differing = differing_values(*(composed[group] for composed in both))
        overruled = [f"{group}.{k}={new} instead of {old}" for k, (old, new) in differing.items()]
        if overruled:
            print_line(f"{preset}: the experiment sets {', '.join(overruled)}")
