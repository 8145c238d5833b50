"""Prepare the corpus if needed, train, choose the best weights, score them.

python -m nmt.cli.train [experiment=NAME] [group=PRESET] [key=value] …
python -m nmt.cli.train seeds=1,2,3 experiment=NAME
python -m nmt.cli.train run.dry_run=true …      print size and speed, train nothing
python -m nmt.cli.train --multirun sweep=peak_lr experiment=NAME
torchrun --nnodes=2 --nproc-per-node=8 … -m nmt.cli.train …      on several hosts
"""

import sys

from nmt.base.log import console, print_line, print_written
from nmt.cli.compose import run_composed
from nmt.config import Config
from nmt.evaluation.spread import seeds_table
from nmt.runs.seeds import parse_seeds, summary_path, train_seeds
from nmt.runs.train import train


def main() -> None:
    """Run the command."""
    # Hydra would read seeds= as a sweep over a key.
    given = [argument for argument in sys.argv[1:] if argument.startswith("seeds=")]
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in given]
    seeds = given[-1].removeprefix("seeds=") if given else None
    run_composed(lambda config: train_each(config, seeds), has_sweeps=True)


def train_each(config: Config, seeds: str | None) -> None:
    """Train one run, or one for each of `seeds`, such as `1,2,3`; a dry run is the same for all."""
    parsed = [] if seeds is None else parse_seeds(seeds)
    if not parsed or config.run.dry_run:
        train(config)
        return
    summary = train_seeds(config, parsed)
    console.print(seeds_table(summary))
    print_written([summary_path(config)])
    print_line(summary.last_line())


if __name__ == "__main__":
    # Run the imported module: functions of __main__ cannot be pickled for a scheduler's jobs.
    from nmt.cli import train as imported  # noqa: PLW0406 - another module than __main__

    imported.main()
