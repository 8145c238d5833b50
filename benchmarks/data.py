"""What data costs beside training: planning, padding, waiting, starting, and memory over time.

    python -m benchmarks.data [pairs=4600000] [updates=1000] [text=../shared/data/multi30k]

Five questions, each with its target: how long and how much memory the plan of an epoch takes for as
many pairs as WMT14 English-German has; how much of a batch is padding, of these and of the text;
which share of its time the trainer waits for batches; how long after the command the first update
begins when the corpus is prepared; and whether memory grows over updates, once an epoch has brought
every shape.
"""

import multiprocessing as mp
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.setting import bench_config, prepared, text_name, train, trainer_of
from benchmarks.training_on_device import wmt14_lengths
from benchmarks.written import write_result
from nmt.cli.common import parse_arguments, run_command
from nmt.config import BatchingConfig, Config, ModelConfig
from nmt.data.batching import EpochPlan, plan_epoch
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import UpdateLoader, UpdateWork
from nmt.training.room import give_back_freed, peak_bytes, program_bytes
from nmt.training.trainer import Trainer

_MOST_PADDING = 2.0


@dataclass(frozen=True)
class Arguments:
    """`pairs` are planned; after an epoch, memory is watched over twice `updates`."""

    pairs: int = 4_600_000
    updates: int = 1_000
    text: str = "../shared/data/multi30k"
    threads: int = 2
    starts: int = 2


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it has to be at most, if anything."""

    name: str
    value: float
    target: float | None
    unit: str

    @property
    def is_met(self) -> bool | None:
        """Whether it is small enough."""
        return None if self.target is None else self.value <= self.target


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(Arguments, str(__doc__))
    seconds, peak, padding = _alone(_plan, arguments.pairs)
    figures = [
        Figure(f"plan of {arguments.pairs:,} pairs", seconds, 1.5, "s"),
        Figure("its memory", peak / 1e9, 1.0, "GB"),
        Figure("its padding", 100 * padding, _MOST_PADDING, "% of places"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        corpus = prepared(config)
        pairs = PreparedCorpus(corpus).train()
        plan = plan_epoch(pairs.source_lengths, pairs.target_lengths, config.batching, 1, 0)
        padding = 100 * _share_padding(plan)
        name = f"padding of {text_name(arguments.text)}"
        figures.append(Figure(name, padding, _MOST_PADDING, "% of places"))
        waiting = _alone(_waiting, config, corpus, arguments.threads)
        figures.append(Figure("waiting for batches", 100 * waiting, 1.0, "% of training"))
        epoch, first, second = _alone(_growth, config, corpus, arguments.updates)
        updates = f"{arguments.updates:,} updates"
        figures += [
            Figure("memory that the first epoch adds", epoch / 1e6, None, "MB"),
            Figure(f"memory that {updates} after it add", first / 1e6, 5.0, "MB"),
            Figure(f"memory that {updates} after these add", second / 1e6, 5.0, "MB"),
        ]
        starts = [_start(Path(folder) / "start", number) for number in range(arguments.starts + 1)]
        # The first one has prepared the corpus; the median of the others counts.
        start = sorted(starts[1:])[len(starts[1:]) // 2]
        figures.append(Figure("command to first update", start, 6.0, "s"))
    _print(figures)
    write_result("data", _result(arguments, figures))


def _alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own: memory is to be its own, too."""
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, work, *arguments))
    process.start()
    there.close()
    found = here.recv()
    process.join()
    return found


def _serve(there: Connection, work: Callable[..., Any], *arguments: Any) -> None:
    there.send(work(*arguments))


def _plan(num_pairs: int) -> tuple[float, int, float]:
    """Seconds of the slower of two plans, bytes above what the lengths took, share of padding."""
    random = np.random.default_rng(1)
    source, target = wmt14_lengths(random, num_pairs, 400)
    config = BatchingConfig(tokens_per_micro_batch=8192)
    before = program_bytes()
    seconds = []
    for epoch in range(2):
        started = time.perf_counter()
        plan_epoch(source, target, config, 1, epoch)
        seconds.append(time.perf_counter() - started)
    peak = peak_bytes() - before
    return max(seconds), peak, _share_padding(plan_epoch(source, target, config, 1, 0))


def _share_padding(plan: EpochPlan) -> float:
    """The share of places of an epoch, of both sides, that hold no token."""
    parts = (part for index in range(plan.num_updates) for part in plan.micro_batches(index))
    places = sum(rows * (source + target) for rows, source, target in map(plan.shape, parts))
    tokens = plan.source_lengths[plan.order].sum() + plan.target_lengths[plan.order].sum()
    return 1 - float(tokens) / places


def _waiting(config: Config, corpus: Path, threads: int) -> float:
    """The share of a short training, its validation left out, that went into making batches."""
    config = replace(
        config,
        training=replace(config.training, max_updates=15, validate_every=1000, log_every=5),
    )
    trainer = trainer_of(config, corpus, threads)
    waited = [0.0]
    work = UpdateLoader.work

    def timed(self: UpdateLoader, *arguments: Any) -> UpdateWork:
        started = time.perf_counter()
        found = work(self, *arguments)
        waited[0] += time.perf_counter() - started
        return found

    UpdateLoader.work = timed  # type: ignore[method-assign,assignment]
    started = time.perf_counter()
    train(trainer)
    return waited[0] / (time.perf_counter() - started)


def _growth(config: Config, corpus: Path, num_updates: int) -> tuple[int, int, int]:
    """Bytes of memory that the first epoch adds after 100 updates, then so many updates, twice.

    An epoch brings every number of rows that a batch can have, and something is kept for each. Read
    with holes in the heap given back, as after each validation: else they hide what is in use.
    """
    model = ModelConfig(
        width=32, num_encoder_layers=1, num_decoder_layers=1, num_heads=2, feed_forward_width=64
    )
    batching = replace(config.batching, target_tokens_per_update=256)
    pairs = PreparedCorpus(corpus).train()
    plan = plan_epoch(pairs.source_lengths, pairs.target_lengths, batching, 1, 0)
    ends = [
        100,
        plan.num_updates,
        plan.num_updates + num_updates,
        plan.num_updates + 2 * num_updates,
    ]
    config = replace(
        config,
        model=model,
        batching=batching,
        training=replace(config.training, max_updates=ends[-1], validate_every=10**6, log_every=50),
    )
    trainer = trainer_of(config, corpus, 1)
    sizes: dict[int, int] = {}
    step = Trainer._step

    def watched(self: Trainer, *arguments: Any) -> None:
        step(self, *arguments)
        if self.progress.update in ends:
            give_back_freed()
            sizes[self.progress.update] = program_bytes()

    Trainer._step = watched  # type: ignore[method-assign,assignment]
    train(trainer)
    early, epoch, first, second = (sizes[update] for update in ends)
    return epoch - early, first - epoch, second - first


def _start(outputs: Path, number: int) -> float:
    """Seconds from the command to the end of the first update, by the default experiment."""
    command = [
        *(sys.executable, "-m", "nmt.cli.train", "experiment=phrasebook_en_de"),
        *(f"run.outputs={outputs}", f"run.name=start{number}", "training.log_every=1"),
    ]
    started = time.perf_counter()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert child.stderr is not None
    for line in _lines(child.stderr):
        if line.startswith("update 1 of"):
            seconds = time.perf_counter() - started
            break
    else:
        raise AssertionError("no update was made")
    child.kill()
    child.wait()
    return seconds


def _lines(stream: Any) -> Iterator[str]:
    while line := stream.readline():
        yield line


def _result(arguments: Arguments, figures: list[Figure]) -> dict[str, Any]:
    return {
        "threads": arguments.threads,
        "text": text_name(arguments.text),
        "figures": {
            figure.name: {
                "value": round(figure.value, 3),
                "target": figure.target,
                "unit": figure.unit,
                "met": figure.is_met,
            }
            for figure in figures
        },
    }


def _print(figures: list[Figure]) -> None:
    table = Table(title="Data")
    table.add_column("")
    for name in ("found", "at most", "unit", "met"):
        table.add_column(name, justify="right")
    for figure in figures:
        met = {True: "yes", False: "no", None: ""}[figure.is_met]
        most = "" if figure.target is None else f"{figure.target:g}"
        table.add_row(figure.name, f"{figure.value:.2f}", most, figure.unit, met)
    Console(stderr=True).print(table)


if __name__ == "__main__":
    run_command(main)
