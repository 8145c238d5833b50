"""Prepare the corpus if needed, train, choose the best weights, score them.

python -m nmt.cli.train [experiment=NAME] [group=PRESET] [key=value] …
python -m nmt.cli.train seeds=1,2,3 experiment=NAME
python -m nmt.cli.train run.dry_run=true …      print size and speed, train nothing
python -m nmt.cli.train --multirun sweep=peak_lr experiment=NAME
torchrun --nnodes=2 --nproc-per-node=8 … -m nmt.cli.train …      on several hosts
"""

import sys

from nmt.cli.common import console, print_line, print_written
from nmt.cli.compose import run_composed
from nmt.cli.run import train
from nmt.config import Config
from nmt.runs.seeds import parse_seeds, seeds_table, summary_path, train_seeds


def main() -> None:
    """Run the command: one run, or one for each of `seeds=`."""
    # Hydra would read seeds= as a sweep over a key.
    given = [argument for argument in sys.argv[1:] if argument.startswith("seeds=")]
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in given]
    seeds = given[-1].removeprefix("seeds=") if given else None
    run_composed(train if seeds is None else lambda config: train_each(config, seeds))


def train_each(config: Config, seeds: str) -> None:
    """Train every seed of `seeds=1,2,3` and print their scores; a dry run is the same for all."""
    parsed = parse_seeds(seeds)
    if config.run.dry_run:
        train(config)
        return
    summary = train_seeds(config, parsed, train, print_line)
    console.print(seeds_table(summary))
    print_written([summary_path(config)])
    print_line(summary.last_line())


if __name__ == "__main__":
    # By the module's own name: what belongs to __main__ cannot be sent to a scheduler's jobs.
    from nmt.cli import train as by_name  # noqa: PLW0406 - another module than __main__

    by_name.main()
