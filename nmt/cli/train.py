"""Prepare the corpus if needed, train, choose the best weights, score them.

nmt train [experiment=NAME] [group=PRESET] [key=value] …
nmt train --multirun training.seed=1,2,3 experiment=NAME
nmt train run.dry_run=true …      print size and speed, train nothing
nmt train --multirun sweep=peak_lr experiment=NAME
torchrun --nnodes=2 --nproc-per-node=8 … -m nmt train …      on several hosts
"""

from typing import Any

from omegaconf import DictConfig

from nmt.cli.application import application
from nmt.cli.compose import run_composed
from nmt.config import Config


@application(Config, primary="train")
def main(composed: DictConfig) -> Any:
    """Train a run, or a job of a sweep."""
    return run_composed(train_or_report, composed)


def train_or_report(config: Config) -> float | None:
    """Train, and return the validation metric; with run.dry_run=true, report what it would take."""
    from nmt.runs.dry_run import dry_run
    from nmt.runs.train import train

    if config.run.dry_run:
        dry_run(config)
        return None
    return train(config)
