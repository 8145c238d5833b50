"""What data costs training: planning, padding, waiting, start-up, and memory over time.

    python -m benchmarks.data [pairs=4600000] [updates=1000] [text=../shared/data/multi30k]

Five measurements, each with a limit: time and memory of an epoch plan for as many pairs as WMT14
English-German has; the share of padding in this plan and in one for `text`; the share of training
time spent on making batches; the growth of memory over updates after the first epoch; and the time
from the command to the first update with a prepared corpus.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from benchmarks.setting import (
    bench_config,
    prepared,
    run_alone,
    text_name,
    train,
    trainer_of,
    wmt14_lengths,
)
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import BatchingConfig, Config, ModelConfig, checked_dataclass
from nmt.data.batching import plan_epoch
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import UpdateLoader, UpdateWork
from nmt.data.plan import EpochPlan
from nmt.training.memory import peak_memory, release_freed_memory, resident_memory
from nmt.training.trainer import Trainer

_MOST_PADDING = 2.0


@checked_dataclass
class Arguments:
    """`pairs` are planned; memory is measured over twice `updates` updates; `starts` are timed."""

    pairs: int = 4_600_000
    updates: int = 1_000
    text: str = "../shared/data/multi30k"
    threads: int = 2
    starts: int = 2


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    seconds, peak, padding = run_alone(_plan, arguments.pairs)
    figures = [
        Figure(f"plan of {arguments.pairs:,} pairs", seconds, "s", at_most=1.5),
        Figure("its memory", peak / 1e9, "GB", at_most=1.0),
        Figure("its padding", 100 * padding, "% of positions", at_most=_MOST_PADDING),
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        corpus = prepared(config)
        pairs = PreparedCorpus(corpus).train()
        plan = plan_epoch(pairs.source_lengths, pairs.target_lengths, config.batching, 1, 0)
        padding = 100 * _share_padding(plan)
        name = f"padding of {text_name(arguments.text)}"
        figures.append(Figure(name, padding, "% of positions", at_most=_MOST_PADDING))
        waiting = run_alone(_waiting, config, corpus, arguments.threads)
        figures.append(Figure("making batches", 100 * waiting, "% of training", at_most=1.0))
        epoch, first, second = run_alone(_growth, config, corpus, arguments.updates)
        updates = f"{arguments.updates:,} updates"
        figures += [
            Figure("memory growth in the first epoch", epoch / 1e6, "MB"),
            Figure(f"memory growth in {updates} after it", first / 1e6, "MB", at_most=5.0),
            Figure(f"memory growth in the next {updates}", second / 1e6, "MB", at_most=5.0),
        ]
        starts = [_start(Path(folder) / "start", number) for number in range(arguments.starts + 1)]
        # The first start prepares the corpus.
        start = statistics.median(starts[1:])
        figures.append(Figure("command to first update", start, "s", at_most=6.0))
    print_figures("Data", figures)
    result = {"threads": arguments.threads, "text": text_name(arguments.text)}
    write_result("data", {**result, "figures": figures_json(figures)})
    num_passed = sum(figure.status == "pass" for figure in figures)
    print(
        f"making batches takes {100 * waiting:.2f} % of training; {num_passed} of"
        f" {len(figures)} measurements are within their limits",
        file=sys.stderr,
    )


def _plan(num_pairs: int) -> tuple[float, int, float]:
    """Return seconds of the slower of two plans, bytes in addition to the lengths, and padding."""
    random = np.random.default_rng(1)
    source, target = wmt14_lengths(random, num_pairs, 400)
    config = BatchingConfig(tokens_per_micro_batch=8192)
    before = resident_memory()
    seconds = []
    for epoch in range(2):
        started = time.perf_counter()
        plan_epoch(source, target, config, 1, epoch)
        seconds.append(time.perf_counter() - started)
    peak = peak_memory() - before
    return max(seconds), peak, _share_padding(plan_epoch(source, target, config, 1, 0))


def _share_padding(plan: EpochPlan) -> float:
    """Return the share of positions of an epoch, of both sides, that are padding."""
    parts = (part for index in range(plan.num_updates) for part in plan.micro_batches(index))
    positions = sum(part.cost for part in parts)
    tokens = plan.source_lengths[plan.order].sum() + plan.target_lengths[plan.order].sum()
    return 1 - float(tokens) / positions


def _waiting(config: Config, corpus: Path, threads: int) -> float:
    """Return the share of a short training that is spent on making batches."""
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
    """Return the growth of memory in three spans, in bytes.

    They are the first epoch from update 100 on, `num_updates` updates after it, and as many again.
    The first epoch is separate, because libraries cache code for each batch shape that is new. Free
    memory is returned to the system before each measurement, as after each validation.
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
        if self.state.update in ends:
            release_freed_memory()
            sizes[self.state.update] = resident_memory()

    Trainer._step = watched  # type: ignore[method-assign,assignment]
    train(trainer)
    early, epoch, first, second = (sizes[update] for update in ends)
    return epoch - early, first - epoch, second - first


def _start(outputs: Path, number: int) -> float:
    """Return the seconds from the command to the end of the first update."""
    command = [
        *(sys.executable, "-m", "nmt", "train", "experiment=phrasebook_en_de"),
        *(f"run.outputs={outputs}", f"run.name=start{number}", "training.log_every=1"),
    ]
    started = time.perf_counter()
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("update 1 of"):
            seconds = time.perf_counter() - started
            break
    else:
        raise AssertionError("no update was made")
    child.kill()
    child.wait()
    return seconds


if __name__ == "__main__":
    run_command(main)
