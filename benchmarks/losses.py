"""The losses of the contest of `benchmarks.training`, laid over each other.

    python -m benchmarks.losses [updates=60] [seeds=1,2,3] [text=../shared/data/multi30k]

For each seed the same updates train our model and the same one written with `torch.nn.Transformer`,
from the same weights, at the same rates, which rise to their peak at half of the updates. What
differs is which numbers dropout takes. Each figure is the loss of a target token, smoothed as
training smooths it: of the first update alone, then the mean of every ten.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.plain_transformer import ordinary_loop
from benchmarks.setting import bench_config, prepared, text_name, trainer_of
from benchmarks.written import write_result
from nmt.cli.common import parse_arguments, run_command
from nmt.cli.seeds import parse_seeds
from nmt.config import Config, ScheduleConfig
from nmt.data.loader import Position
from nmt.training.rehearsal import Rehearsal

_MEAN_OF = 10
_PEAK = 1e-3


@dataclass(frozen=True)
class Arguments:
    """The module's text explains them."""

    updates: int = 60
    seeds: str = "1,2,3"
    text: str = "../shared/data/multi30k"
    threads: int = 2


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(Arguments, str(__doc__))
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        config = replace(
            config,
            schedule=ScheduleConfig(
                peak_learning_rate=_PEAK, warmup_updates=-(-arguments.updates // 2)
            ),
            training=replace(config.training, max_updates=arguments.updates),
        )
        corpus = prepared(config)
        seeds = {
            seed: curves(_with_seed(config, seed), corpus, arguments.threads)
            for seed in parse_seeds(arguments.seeds)
        }
    _print(seeds)
    result: dict[str, Any] = {
        "threads": arguments.threads,
        "updates": arguments.updates,
        "peak_learning_rate": _PEAK,
        "target_tokens_per_update": config.batching.target_tokens_per_update,
        "text": text_name(arguments.text),
        "first_update_then_means_of": _MEAN_OF,
        "seeds": {str(seed): found for seed, found in seeds.items()},
    }
    write_result("losses", result)


def _with_seed(config: Config, seed: int) -> Config:
    return replace(config, training=replace(config.training, seed=seed))


def curves(config: Config, corpus: Path, threads: int) -> dict[str, list[float]]:
    """The losses a target token of both, by name; of the same updates, one after the other."""
    trainer = trainer_of(config, corpus, threads)
    tokenizer, device = trainer.model.target_tokenizer, torch.device("cpu")
    size = tokenizer.vocabulary_size
    torch.manual_seed(config.training.seed)
    ours = Rehearsal(config, (size, size), device)
    theirs = ordinary_loop(config, size, tokenizer.pad_id, device, begin_as=ours.transformer)
    losses: dict[str, list[float]] = {"ours": [], "nn.Transformer": []}
    works = trainer.loader.updates(Position())
    for update in range(1, config.training.max_updates + 1):
        work = next(works)
        gradient = ours.updater.gradient(work, lambda: None)
        ours.updater.step(gradient, update)
        losses["ours"].append(gradient.loss.item() / work.num_target_tokens)
        losses["nn.Transformer"].append(theirs(work).item() / work.num_target_tokens)
    return {name: _shortened(every) for name, every in losses.items()}


def _shortened(losses: Sequence[float]) -> list[float]:
    """The first, and the means of all tens, of which the first one lacks it."""
    tens = [losses[max(1, i) : i + _MEAN_OF] for i in range(0, len(losses), _MEAN_OF)]
    means = [statistics.mean(ten) for ten in tens if ten]
    return [round(loss, 3) for loss in (losses[0], *means)]


def _print(seeds: dict[int, dict[str, list[float]]]) -> None:
    table = Table(title="Loss a target token: the first update, then means of ten")
    table.add_column("seed", justify="right")
    table.add_column("", min_width=len("nn.Transformer"))
    for _ in next(iter(next(iter(seeds.values())).values())):
        table.add_column("", justify="right")
    for seed, found in seeds.items():
        for name, losses in found.items():
            table.add_row(str(seed), name, *(f"{loss:.3f}" for loss in losses))
    Console(stderr=True).print(table)


if __name__ == "__main__":
    run_command(main)
