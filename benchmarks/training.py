"""Training throughput beside the same model written with `torch.nn.Transformer`, on a CPU.

    python -m benchmarks.training [rounds=5] [updates=8] [text=../shared/data/multi30k] [threads=2]

Both train on the same batches with the same dropout, loss, clipping and Adam. Each runs in a
process of its own; they take turns, so that both see the same noise of the machine, and the result
is the ratio within a round. A third process computes only the matrix products of the same updates
by `torch.mm`, as an upper limit. Without text, sentences of similar lengths are made up.
GPUs are measured by `benchmarks.gpu`.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.figures import print_table, write_result
from benchmarks.plain_transformer import plain_update
from benchmarks.setting import (
    VOCABULARY_SIZE,
    Worker,
    bench_config,
    prepared,
    share_not_padding,
    text_name,
    trainer_of,
)
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import Config, checked_dataclass
from nmt.data.loader import Position, UpdateWork
from nmt.training.memory import peak_memory
from nmt.training.trainer import Trainer

OURS, PLAIN, PRODUCTS = "ours", "nn.Transformer", "products by torch.mm"


@checked_dataclass
class Arguments:
    """`rounds` rounds of `updates` updates each; `text` is a folder of aligned text."""

    rounds: int = 5
    updates: int = 8
    text: str = "../shared/data/multi30k"
    threads: int = 2


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    result = measure(arguments)
    write_result("training", result)
    ratio = result["ratio"]
    print(
        f"{OURS} / {PLAIN}: {ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f}"
        f" over {arguments.rounds} rounds)",
        file=sys.stderr,
    )


def measure(arguments: Arguments) -> dict[str, Any]:
    """Measure the three contenders and print their table."""
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        corpus = prepared(config)
        steps = {OURS: _ours, PLAIN: _plain, PRODUCTS: _products}
        contenders = {
            name: Worker(_contender, step, config, corpus, arguments.threads)
            for name, step in steps.items()
        }
        for contender in contenders.values():
            contender.ask(3)  # warm-up: allocator, thread pool, first touches
        rounds = [
            {name: contender.ask(arguments.updates) for name, contender in contenders.items()}
            for _ in range(arguments.rounds)
        ]
        for contender in contenders.values():
            contender.close()
    result = _summary(arguments, rounds)
    _print(result)
    return result


Step = Callable[[UpdateWork], Any]


def _ours(trainer: Trainer) -> Step:
    return trainer.update


def _plain(trainer: Trainer) -> Step:
    tokenizer = trainer.model.source_tokenizer
    device = trainer.process.device
    return plain_update(trainer.config, tokenizer.vocabulary_size, tokenizer.pad_id, device)


def _products(trainer: Trainer) -> Step:
    """Return a function that computes the products of all projections, forward and backward.

    The products of queries with keys and of weights with values are left out, as they are few.
    Results are written to memory that is allocated once.
    """
    config = trainer.config.model
    width, inner = config.width, config.feed_forward_width
    memory: dict[tuple[int, int], torch.Tensor] = {}

    def matrix(index: int, rows: int, columns: int) -> torch.Tensor:
        held = memory.get((index, columns))
        if held is None or len(held) < rows:
            held = memory[index, columns] = torch.rand(rows, columns)
        return held[:rows]

    def project(rows: int, inputs: int, outputs: int) -> None:
        values, weight = matrix(0, rows, inputs), matrix(1, inputs, outputs)
        result = torch.mm(values, weight, out=matrix(2, rows, outputs))
        torch.mm(result, weight.t(), out=matrix(3, rows, inputs))
        torch.mm(values.t(), result, out=matrix(4, inputs, outputs))

    def step(work: UpdateWork) -> None:
        for batch in work.micro_batches.values():
            source, target = batch.source.numel(), batch.target_input.numel()
            for layers, own, cross, rows in (
                (config.num_encoder_layers, 4, 0, source),
                (config.num_decoder_layers, 6, 2, target),
            ):
                for _ in range(layers):
                    for _ in range(own):
                        project(rows, width, width)
                    for _ in range(cross):
                        project(source, width, width)
                    project(rows, width, inner)
                    project(rows, inner, width)
            project(batch.num_target_tokens, width, VOCABULARY_SIZE)

    return step


@dataclass(frozen=True)
class Measurement:
    """Measurements of one contender in one round."""

    seconds: float
    target_tokens: int
    share_not_padding: float
    peak_mebibytes: float

    @property
    def tokens_per_second(self) -> float:
        """Target tokens without padding."""
        return self.target_tokens / self.seconds


def _contender(
    make_step: Callable[[Trainer], Step], config: Config, corpus: Path, threads: int
) -> Callable[[int], Measurement]:
    """Return a function that measures a number of updates."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    trainer = trainer_of(config, corpus, threads)
    trainer.model.network.train()
    step = make_step(trainer)
    updates: Iterator[UpdateWork] = trainer.loader.updates(Position())

    def run(number: int) -> Measurement:
        works = [next(updates) for _ in range(number)]
        started = time.perf_counter()
        for update in works:
            step(update)
        seconds = time.perf_counter() - started
        tokens = sum(update.num_target_tokens for update in works)
        return Measurement(seconds, tokens, share_not_padding(works), peak_memory() / 2**20)

    return run


def _summary(arguments: Arguments, rounds: list[dict[str, Measurement]]) -> dict[str, Any]:
    def ratio(first: str, second: str) -> dict[str, float]:
        values = [t[first].tokens_per_second / t[second].tokens_per_second for t in rounds]
        named = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
        return {name: round(value, 3) for name, value in named.items()}

    return {
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "updates_per_turn": arguments.updates,
        "text": text_name(arguments.text),
        "contenders": {
            name: {
                "target_tokens_per_second": round(
                    statistics.median(t[name].tokens_per_second for t in rounds)
                ),
                "peak_mebibytes": round(max(t[name].peak_mebibytes for t in rounds)),
                "share_not_padding": round(
                    statistics.mean(t[name].share_not_padding for t in rounds), 4
                ),
                "share_of_products": ratio(name, PRODUCTS),
            }
            for name in rounds[0]
        },
        "ratio": ratio(OURS, PLAIN),
    }


def _print(result: dict[str, Any]) -> None:
    rows = [
        [
            name,
            f"{row['target_tokens_per_second']:,}",
            f"{row['share_of_products']['median']:.2f}",
            f"{100 * row['share_not_padding']:.1f} %",
            f"{row['peak_mebibytes']:,}",
        ]
        for name, row in result["contenders"].items()
    ]
    columns = ["", "target tokens/s", f"/ {PRODUCTS}", "not padding", "peak MiB"]
    print_table(f"Training, {result['threads']} threads, {result['text']}", columns, rows)


if __name__ == "__main__":
    run_command(main)
