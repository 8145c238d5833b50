"""Prepare the corpus if needed, train, choose the best weights, score them.

python -m nmt.cli.train [experiment=NAME] [group=PRESET] [key=value] …
python -m nmt.cli.train --multirun training.seed=1,2,3 experiment=NAME
python -m nmt.cli.train run.dry_run=true …      print size and speed, train nothing
python -m nmt.cli.train --multirun sweep=peak_lr experiment=NAME
torchrun --nnodes=2 --nproc-per-node=8 … -m nmt.cli.train …      on several hosts
"""

from nmt.cli.compose import run_composed
from nmt.config import Config
from nmt.runs.dry_run import dry_run
from nmt.runs.train import train


def main() -> None:
    """Run the command."""
    run_composed(train_or_report, has_sweeps=True)


def train_or_report(config: Config) -> float | None:
    """Train and return the validation metric; with run.dry_run=true, only report the cost."""
    if config.run.dry_run:
        dry_run(config)
        return None
    return train(config)


if __name__ == "__main__":
    # Run the imported module: functions of __main__ cannot be pickled for a scheduler's jobs.
    from nmt.cli import train as imported  # noqa: PLW0406 - another module than __main__

    imported.main()
