"""One configuration trained once a seed, and what the seeds have in common.

python -m nmt.cli.train seeds=1,2,3 experiment=NAME
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.cli.common import console, name_files
from nmt.config import Config
from nmt.errors import UserError
from nmt.evaluation.scores import METRIC_NAMES
from nmt.evaluation.seeds import SeedsSummary, in_words, seeds_table, summarise
from nmt.files import check_writable, read_json, write_json
from nmt.training import distributed, experiment
from nmt.training.validation import ValidationResult

# Not __name__, which is __main__ when the module is the command.
logger = logging.getLogger("nmt.cli")

_ARGUMENT = "seeds="


def take_seeds() -> str | None:
    """Take `seeds=…` off the command line, which Hydra would take for a sweep; None without it."""
    given = [argument for argument in sys.argv[1:] if argument.startswith(_ARGUMENT)]
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument not in given]
    return given[-1].removeprefix(_ARGUMENT) if given else None


def parse_seeds(text: str) -> list[int]:
    """The seeds of `seeds=1,2,3`.

    Raises:
        UserError: there is none, one is no whole number from 0 on, or stands there twice.
    """
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not (name.isascii() and name.isdigit()):
            raise UserError(
                f"seeds={text}: {name!r} is no whole number from 0 on; write seeds=1,2,3"
            )
    seeds = [int(name) for name in names]
    doubled = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if doubled is not None:
        raise UserError(f"seeds={text}: {doubled} stands there twice; name each seed once")
    return seeds


def train_seeds(
    config: Config, seeds: list[int], train: Callable[[Config], float | None]
) -> SeedsSummary:
    """Train each seed that is not complete in a run of its own, and take their scores together.

    Args:
        config: the experiment; its own seed does not count.
        seeds: different ones.
        train: runs one experiment, or finds it complete.

    Raises:
        UserError: of the first run that fails; those after it are not begun.
    """
    _check(config)
    path = summary_path(config)
    check_writable(path)
    configs = {seed: seed_config(config, seed) for seed in seeds}
    were_complete = all(experiment.is_complete(of.run_folder) for of in configs.values())
    for number, (seed, of_seed) in enumerate(configs.items(), start=1):
        # Not logged: the run that opens its log is yet to come.
        line = f"seed {seed}, {number} of {len(seeds)}: {of_seed.run_folder}"
        console.print(line, markup=False, soft_wrap=True)
        try:
            train(of_seed)
        except BaseException:
            logger.error("stopped at seed %d; the same command continues with it", seed)
            raise
    results = {seed: experiment.read_result(of.run_folder) for seed, of in configs.items()}
    summary = summarise(config.run.name, results)
    if not were_complete:
        # What users translate with next: the last of the seeds is not their best.
        experiment.point_latest(configs[_best_on_validation(config, results)])
    runs = {str(seed): _about(of.run_folder, results[seed]) for seed, of in configs.items()}
    write_json(path, {**summary.to_json(), "runs": runs})
    console.print(seeds_table(summary))
    name_files([path])
    console.print(_last_line(summary), markup=False, soft_wrap=True)
    return summary


def seed_config(config: Config, seed: int) -> Config:
    """The run of one seed: `<run.name>_seed<seed>`."""
    return replace(
        config,
        training=replace(config.training, seed=seed),
        run=replace(config.run, name=f"{config.run.name}_seed{seed}"),
    )


def summary_path(config: Config) -> Path:
    """Where the scores of all seeds are written: `<outputs>/seeds/<run.name>.json`."""
    return Path(config.run.outputs) / "seeds" / f"{config.run.name}.json"


def _check(config: Config) -> None:
    if any(argument.startswith("training.seed=") for argument in sys.argv):
        raise UserError("seeds= and training.seed= exclude each other: name one of them")
    if config.run.folder:
        raise UserError(
            "seeds= names runs by run.name, so it goes neither with --multirun nor with run.folder;"
            " in a sweep write training.seed=1,2,3"
        )
    if distributed.launched_by_cluster() or config.training.num_hosts > 1:
        raise UserError(
            "seeds= starts the processes of each seed itself, on one host: train each seed of a"
            f" cluster by training.seed=1 run.name={config.run.name}_seed1 and so on, then give"
            " seeds= on one host, which finds them complete"
        )


def _best_on_validation(config: Config, results: dict[int, dict[str, Any]]) -> int:
    def rank(seed: int) -> tuple[float, float]:
        valid = results[seed]["valid"]
        result = ValidationResult(valid["loss"], valid["bleu"])
        return result.rank(config.training.validation_metric)

    return max(results, key=rank)


def _about(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the figures may ask about a single run."""
    environment = read_json(folder / experiment.ENVIRONMENT_FILE)
    named = ("commit", "processor", "gpus", "processes", "threads", "corpus")
    return {
        "folder": folder.name,
        **{name: environment[name] for name in named if name in environment},
        **{name: result[name] for name in ("chosen", "updates", "training_seconds")},
    }


def _last_line(summary: SeedsSummary) -> str:
    count = f"{len(summary.seeds)} seed{'' if len(summary.seeds) == 1 else 's'}"
    for split, spreads in summary.test_sets.items():
        signature = summary.signatures[split]["bleu"]
        return f"{split} {METRIC_NAMES['bleu']} {in_words(spreads['bleu'])} ({count})  {signature}"
    return f"valid BLEU {in_words(summary.valid['bleu'])} ({count}; the corpus has no test set)"
