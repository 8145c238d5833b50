"""Names of runs and of groups of runs, by which trackers arrange them."""

import os

from nmt.config import Config

_PROJECT = "nmt"


def is_sweep(config: Config) -> bool:
    """Return whether a run belongs to a sweep, which gives each of its runs a folder."""
    return bool(config.run.folder)


def project_name(given: str) -> str:
    """Return the project of wandb: the given one, or that of the environment."""
    return given or os.environ.get("WANDB_PROJECT") or _PROJECT


def run_label(config: Config) -> str:
    """Return the name of a run: in a sweep, where all runs share `run.name`, that of its folder."""
    given = config.tracking.wandb.name or os.environ.get("WANDB_NAME", "")
    if is_sweep(config):
        return f"{given} {config.run_folder.name}".strip()
    return given or config.run.name


def group_name(config: Config) -> str | None:
    """Return the group of a run, which by default is its sweep; None for other runs."""
    given = config.tracking.wandb.group or os.environ.get("WANDB_RUN_GROUP")
    return given or (config.run.name if is_sweep(config) else None)
