"""Training throughput beside the same model written with `torch.nn.Transformer`.

    python -m benchmarks.training [rounds=5] [updates=8] [text=../shared/data/multi30k]
    python -m benchmarks.training processes=2     beside one process with as many threads
    python -m benchmarks.training --device cuda   the paper's models as WMT14 asks for them, there

Both train on the same batches with the same dropout rates and places, loss, clipping and Adam. Each
lives in a process of its own; they take turns, so that both meet the same noise of the machine, and
what counts is the ratio within a round. Two more compute nothing but the matrix products of the
same updates, by `torch.mm` and by oneDNN: what they reach is the ceiling of who multiplies so.
Without text, sentences of like lengths are made up.

Other toolkits take turns after that, for `steps=60` updates each, where the folder `peers=` (from
the start ../shared/bench/peers) has environments for them; `benchmarks.beside_peers` says how.

With `device=cuda` (or `--device cuda`) `benchmarks.training_on_device` measures; `models=base,big`,
`tokens=25000`, `micro_batch=8192`, `vocabulary=37000` and `compile=true` (layers compiled, beside
the others) are its keys, beside `rounds` and `updates`. Without, everything is measured on the CPU,
also where there is a GPU.

With `processes=N`, N processes of one thread each, which share gradients, take turns with one
process of N threads; both cut updates into the same micro-batches, which the N share evenly.
"""

import multiprocessing as mp
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import beside_peers
from benchmarks.plain_transformer import ordinary_loop
from benchmarks.setting import VOCABULARY_SIZE, bench_config, prepared, text_name, trainer_of
from benchmarks.training_on_device import Sizes, measure, share_not_padding
from benchmarks.written import write_result
from nmt.cli.common import parse_arguments, run_command
from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateWork
from nmt.errors import UserError
from nmt.model.linear import can_be_packed, product_by_onednn, with_spare_rows
from nmt.training.room import peak_bytes
from nmt.training.trainer import Trainer
from nmt.training.workload import corpus_sizes, shared_evenly

_CEILINGS = {"products by torch.mm": False, "products by oneDNN": True}


@dataclass(frozen=True)
class Arguments:
    """`rounds` turns of `updates` updates for each; `text` is a folder of aligned text.

    With `processes` above 1, so many are compared with one instead; with `device`, the keys below
    it say what is measured there.
    """

    rounds: int = 5
    updates: int = 8
    text: str = "../shared/data/multi30k"
    threads: int = 2
    processes: int = 1
    device: str = ""
    models: str = "base,big"
    tokens: int = 25_000
    micro_batch: int = 8_192
    vocabulary: int = 37_000
    compile: bool = False
    peers: str = "../shared/bench/peers"
    steps: int = 60


def main() -> None:
    """Run the benchmark."""
    arguments = parse_arguments(Arguments, str(__doc__), _with_equals(sys.argv[1:]))
    if arguments.device:
        _on_device(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        config = bench_config(arguments.text, Path(folder))
        corpus = prepared(config)
        contenders = _contenders(arguments, config, corpus)
        for contender in contenders.values():
            contender.run(3)  # warm-up: allocator, thread pool, first touches
        turns = [
            {name: contender.run(arguments.updates) for name, contender in contenders.items()}
            for _ in range(arguments.rounds)
        ]
        for contender in contenders.values():
            contender.close()
    result = _summary(arguments, turns)
    _print(result)
    if arguments.processes == 1:
        result["peers"] = _beside_peers(arguments)
    kind = "training" if arguments.processes == 1 else "processes"
    write_result(kind, result)


def _with_equals(given: Sequence[str]) -> list[str]:
    """`--device cuda` as `device=cuda`: so it is written in many places."""
    arguments = list(given)
    if "--device" in arguments[:-1]:
        place = arguments.index("--device")
        arguments[place : place + 2] = [f"device={arguments[place + 1]}"]
    return arguments


def _on_device(arguments: Arguments) -> None:
    if arguments.device not in {"cpu", "cuda"}:
        raise UserError(f"device={arguments.device} is no device; take cpu or cuda")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        raise UserError("device=cuda: torch finds no GPU here")
    torch.set_num_threads(arguments.threads)
    sizes = Sizes(
        tuple(arguments.models.split(",")),
        arguments.rounds,
        arguments.updates,
        arguments.tokens,
        arguments.micro_batch,
        arguments.vocabulary,
    )
    with tempfile.TemporaryDirectory() as folder:
        device = torch.device(arguments.device)
        result = measure(device, sizes, Path(folder), arguments.compile)
    console = Console(stderr=True)
    for model, rows in result["models"].items():
        table = Table(title=f"{model} on {result['device']}, {result['precision']}")
        table.add_column("")
        heads = ("target tokens/s", "/ nn.Transformer", "of the ceiling", "not padding", "peak GB")
        for head in heads:
            table.add_column(head, justify="right")
        for name, row in rows.items():
            table.add_row(
                name,
                f"{row['target_tokens_per_second']:,}",
                f"{row['to_nn_transformer']:.2f}",
                f"{100 * row['share_of_ceiling']:.1f} %",
                f"{100 * row['share_not_padding']:.1f} %",
                "–" if row["peak_gigabytes"] is None else f"{row['peak_gigabytes']:.2f}",
            )
        console.print(table)
    write_result(f"training-{arguments.device}", result)


def _beside_peers(arguments: Arguments) -> dict[str, dict[str, Any]]:
    """Other toolkits, where there are any, and ours beside them; {} where there are none."""
    folder = Path(arguments.peers)
    if not beside_peers.installed(folder) or not Path(arguments.text).is_dir():
        where = f"none is installed for {folder}, or there is no text"
        print(f"other toolkits: {where}", file=sys.stderr)
        return {}
    shared = beside_peers.Arguments(arguments.steps, arguments.text, arguments.threads)
    found = beside_peers.measure(folder, shared)
    if beside_peers.OURS not in found:
        return {}
    table = Table(title=f"Beside other toolkits, {arguments.steps} updates")
    table.add_column("")
    for head in ("target tokens/s", "ours / this", "not padding", "peak MiB"):
        table.add_column(head, justify="right")
    for name, told in found.items():
        told["ours_to_this"] = round(found[beside_peers.OURS]["tok_s"] / told["tok_s"], 3)
        table.add_row(
            name,
            f"{told['tok_s']:,.0f}",
            f"{told['ours_to_this']:.2f}",
            "" if told["useful_share"] is None else f"{100 * told['useful_share']:.1f} %",
            f"{told['rss_mib']:,}",
        )
    Console(stderr=True).print(table)
    return found


def _contenders(arguments: Arguments, config: Config, corpus: Path) -> "dict[str, _Contender]":
    number = arguments.processes
    if number == 1:
        return {
            "ours": _Contender(_ours, config, corpus, arguments.threads),
            "nn.Transformer": _Contender(_plain, config, corpus, arguments.threads),
            **{
                name: _Contender(
                    partial(_products, is_onednn=is_onednn), config, corpus, arguments.threads
                )
                for name, is_onednn in _CEILINGS.items()
                if not is_onednn or can_be_packed(torch.ones(1))
            },
        }
    # As batching.tokens_per_micro_batch=auto would, so that no process is idle.
    together = replace(config, training=replace(config.training, num_processes=number))
    sizes = corpus_sizes(together, PreparedCorpus(corpus))
    tokens = shared_evenly(together, sizes, config.batching.max_micro_batch_tokens)
    config = replace(config, batching=replace(config.batching, tokens_per_micro_batch=tokens))
    return {
        f"{number} processes": _Contender(_ours, config, corpus, 1, number),
        f"1 process, {number} threads": _Contender(_ours, config, corpus, number),
    }


Step = Callable[[UpdateWork], Any]


def _ours(trainer: Trainer) -> Step:
    return trainer.update


def _plain(trainer: Trainer) -> Step:
    tokenizer = trainer.model.source_tokenizer
    device = trainer.process.device
    return ordinary_loop(trainer.config, tokenizer.vocabulary_size, tokenizer.pad_id, device)


def _products(trainer: Trainer, is_onednn: bool) -> Step:
    """The products of all projections, forward and backward; those of attention are few.

    Those of `torch.mm` go into memory that is there already.
    """
    config = trainer.config.model
    width, inner = config.width, config.feed_forward_width
    memory: dict[tuple[int, int], torch.Tensor] = {}

    def matrix(place: int, rows: int, columns: int) -> torch.Tensor:
        # Larger ones replace smaller ones; a slice of the rows serves all lengths.
        held = memory.get((place, columns))
        if held is None or len(held) < rows:
            held = memory[place, columns] = torch.rand(rows, columns)
        return held[:rows]

    def project(rows: int, inputs: int, outputs: int) -> None:
        if is_onednn:
            # As many as it has code for.
            rows = len(with_spare_rows(torch.empty(rows, 1)))
            values, weight = matrix(0, rows, inputs), matrix(1, outputs, inputs)
            result = product_by_onednn(values, weight)
            product_by_onednn(result, weight.t())
            product_by_onednn(result.t(), values.t())
            return
        values, weight = matrix(0, rows, inputs), matrix(1, inputs, outputs)
        result = torch.mm(values, weight, out=matrix(2, rows, outputs))
        torch.mm(result, weight.t(), out=matrix(3, rows, inputs))
        torch.mm(values.t(), result, out=matrix(4, inputs, outputs))

    def step(work: UpdateWork) -> None:
        for micro_batch in work.micro_batches:
            batch = micro_batch.batch
            source, target = batch.source.numel(), batch.target_input.numel()
            for layers, own, other, rows in (
                (config.num_encoder_layers, 4, 0, source),
                (config.num_decoder_layers, 6, 2, target),
            ):
                for _ in range(layers):
                    for _ in range(own):
                        project(rows, width, width)
                    for _ in range(other):
                        project(source, width, width)
                    project(rows, width, inner)
                    project(rows, inner, width)
            project(batch.num_target_tokens, width, VOCABULARY_SIZE)

    return step


@dataclass(frozen=True)
class Turn:
    """What one contender did in one turn."""

    seconds: float
    target_tokens: int
    share_not_padding: float
    peak_mebibytes: float

    @property
    def tokens_per_second(self) -> float:
        """Target tokens without padding."""
        return self.target_tokens / self.seconds


class _Contender:
    """A process that trains when it is told to, or several that train together."""

    def __init__(
        self,
        work: Callable[[Trainer], Step],
        config: Config,
        corpus: Path,
        threads: int,
        num_processes: int = 1,
    ) -> None:
        context = mp.get_context("spawn")
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(num_processes):
            here, there = context.Pipe()
            place = {
                "CUDA_VISIBLE_DEVICES": "",  # the others compute on the CPU
                **{"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost"},
                **{"WORLD_SIZE": str(num_processes), "MASTER_PORT": str(port)},
            }
            process = context.Process(
                target=_serve, args=(there, work, config, corpus, threads, place)
            )
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def run(self, updates: int) -> Turn:
        for pipe in self._pipes:
            pipe.send(updates)
        turns: list[Turn] = [pipe.recv() for pipe in self._pipes]
        return replace(
            turns[0],
            seconds=max(turn.seconds for turn in turns),
            peak_mebibytes=sum(turn.peak_mebibytes for turn in turns),
        )

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(0)
        for process in self._processes:
            process.join()


def _serve(
    there: Connection,
    work: Callable[[Trainer], Step],
    config: Config,
    corpus: Path,
    threads: int,
    place: dict[str, str],
) -> None:
    os.environ.update(place)
    trainer = trainer_of(config, corpus, threads)
    trainer.model.transformer.train()
    step = work(trainer)
    updates: Iterator[UpdateWork] = trainer.loader.updates(Position())
    while number := there.recv():
        works = [next(updates) for _ in range(number)]
        started = time.perf_counter()
        for update in works:
            step(update)
        seconds = time.perf_counter() - started
        peak = peak_bytes() / 2**20
        tokens = sum(update.num_target_tokens for update in works)
        there.send(Turn(seconds, tokens, share_not_padding(works), peak))


def _summary(arguments: Arguments, turns: list[dict[str, Turn]]) -> dict[str, Any]:
    def ratios(first: str, second: str) -> list[float]:
        return [t[first].tokens_per_second / t[second].tokens_per_second for t in turns]

    names = list(turns[0])
    return {
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "updates_per_turn": arguments.updates,
        "text": text_name(arguments.text),
        "contenders": {
            name: {
                "target_tokens_per_second": round(
                    statistics.median(t[name].tokens_per_second for t in turns)
                ),
                "peak_mebibytes": round(max(t[name].peak_mebibytes for t in turns)),
                "share_not_padding": round(
                    statistics.mean(t[name].share_not_padding for t in turns), 4
                ),
            }
            for name in turns[0]
        },
        "ratio": _spread(ratios(*names[:2])),
        "share_of": {
            ceiling: {name: _spread(ratios(name, ceiling)) for name in names[:2]}
            for ceiling in names
            if ceiling in _CEILINGS
        },
    }


def _spread(values: list[float]) -> dict[str, float]:
    """Median and range over the rounds."""
    named = {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
    return {name: round(value, 3) for name, value in named.items()}


def _print(result: dict[str, Any]) -> None:
    table = Table(title=f"Training, {result['threads']} threads, {result['text']}")
    table.add_column("")
    for name in ("target tokens/s", "not padding", "peak MiB"):
        table.add_column(name, justify="right")
    for name, row in result["contenders"].items():
        share = f"{100 * row['share_not_padding']:.1f} %"
        rate = f"{row['target_tokens_per_second']:,}"
        table.add_row(name, rate, share, f"{row['peak_mebibytes']:,}")
    console = Console(stderr=True)
    console.print(table)
    rounds = f"over {result['rounds']} rounds"
    first, second, *_ = result["contenders"]
    console.print(f"{first} / {second}: {_told(result['ratio'])} {rounds}")
    for ceiling, shares in result["share_of"].items():
        for name, share in shares.items():
            console.print(f"{name} / {ceiling}: {_told(share)}")


def _told(spread: dict[str, float]) -> str:
    return f"median {spread['median']} ({spread['lowest']} to {spread['highest']})"


if __name__ == "__main__":
    run_command(main)
