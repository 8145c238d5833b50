"""Names of runs and of groups of runs, by which trackers arrange them."""

from nmt.config import Config


def is_sweep(config: Config) -> bool:
    """Return whether a run belongs to a sweep, which gives each of its runs a folder."""
    return bool(config.run.folder)


def run_label(config: Config) -> str:
    """Return the name of a run: in a sweep, where all runs share `run.name`, that of its folder."""
    return config.run_folder.name if is_sweep(config) else config.run.name


def group_name(config: Config) -> str | None:
    """Return the sweep's name; None for other runs."""
    return config.run.name if is_sweep(config) else None
