"""Train one configuration with several seeds and summarise the scores."""

import logging
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import check_writable, write_json
from nmt.base.log import print_line
from nmt.config import MAX_SEED, Config
from nmt.evaluation.records import read_environment, read_result
from nmt.evaluation.spread import SeedsSummary, summarise
from nmt.runs.train import train
from nmt.training import distributed

logger = logging.getLogger(__name__)


def parse_seeds(text: str) -> list[int]:
    """Parse the value of `seeds=1,2,3`."""
    values = [value.strip() for value in text.split(",")]
    # At most 20 digits, because Python refuses to convert more than 4,300.
    seeds = [int(value) for value in values if re.fullmatch(r"[0-9]{1,20}", value)]
    if len(set(seeds)) < len(values) or max(seeds) > MAX_SEED:
        raise UserError(
            f"seeds={one_line(text)}: write different integers from 0 to {MAX_SEED}, as in"
            " seeds=1,2,3"
        )
    return seeds


def train_seeds(config: Config, seeds: list[int]) -> SeedsSummary:
    """Train a run for each seed unless that run is complete; write a summary of all scores."""
    has_seed = any(argument.startswith("training.seed=") for argument in sys.argv)
    if has_seed or config.run.folder or distributed.is_launched():
        raise UserError(
            "seeds= cannot be combined with training.seed=, run.folder=, --multirun or torchrun;"
            " train each seed alone with training.seed=N run.name=NAME_seedN, and afterwards"
            " summarise all with seeds="
        )
    path = summary_path(config)
    check_writable(path)
    configs = {seed: seed_config(config, seed) for seed in seeds}
    for number, (seed, run) in enumerate(configs.items(), start=1):
        print_line(f"seed {seed}, {number} of {len(seeds)}: {run.run_folder}")
        try:
            train(run)
        except BaseException:
            logger.error("stopped at seed %d; the same command continues with it", seed)
            raise
    results, runs = {}, {}
    for seed, run in configs.items():
        folder = run.run_folder
        results[seed] = read_result(folder)
        kept = {key: results[seed][key] for key in ("chosen", "updates", "training_seconds")}
        runs[seed] = {"folder": folder.name, **read_environment(folder), **kept}
    summary = replace(summarise(config.run.name, results), runs=runs)
    write_json(path, asdict(summary))
    return summary


def seed_config(config: Config, seed: int) -> Config:
    """Return the configuration of one seed, whose run is `<run.name>_seed<seed>`."""
    return replace(
        config,
        training=replace(config.training, seed=seed),
        run=replace(config.run, name=f"{config.run.name}_seed{seed}"),
    )


def summary_path(config: Config) -> Path:
    """Return the path of the summary: `<run.outputs>/seeds/<run.name>.json`."""
    return Path(config.run.outputs) / layout.SEEDS_FOLDER / f"{config.run.name}.json"
