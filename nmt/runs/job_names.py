"""Folder names of the jobs of a sweep: the overrides that vary."""

import hashlib
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

_MAX_CHARACTERS = 120


class JobNames(Callback):
    """Hydra callback that leaves constants out of `hydra.job.override_dirname` in all jobs."""

    def on_multirun_start(self, config: DictConfig, **_options: Any) -> None:
        """Exclude the keys with one value on the command line."""
        overrides = OverridesParser.create().parse_overrides(task_overrides(config.hydra))
        varies = {one.key_or_group: one.is_sweep_override() for one in overrides}  # the last counts
        constants = [key for key in varies if not varies[key]]
        excluded = [*config.hydra.job.config.override_dirname.exclude_keys, *constants]
        names = ",".join(f"'{key}'" for key in excluded)
        # Launchers compose the configuration of each job again, with these overrides.
        key = "hydra.job.config.override_dirname.exclude_keys"
        config.hydra.overrides.hydra.append(f"{key}=[{names}]")


def task_overrides(hydra: Any) -> list[str]:
    """Return the overrides of the command line as they stand, with their interpolations.

    `hydra` is the node of this name.
    """
    overrides: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return [str(one) for one in overrides]


def folder_name(overrides: str) -> str:
    """Return the name of the folder of a job, given `hydra.job.override_dirname`.

    A slash becomes `_`, and a name is cut after 120 characters; a changed name ends with a hash of
    the original.
    """
    name = overrides.replace("/", "_")
    if name == overrides and len(name) <= _MAX_CHARACTERS:
        return name or "all"
    return f"{name[:_MAX_CHARACTERS]}-{hashlib.sha256(overrides.encode()).hexdigest()[:8]}"


def register() -> None:
    """Make `folder_name` available to configurations."""
    OmegaConf.register_new_resolver("nmt.folder_name", folder_name, replace=True)
