"""Measure the memory and time of updates in a fresh process, and find a micro-batch size that fits.

`batching.tokens_per_micro_batch=auto` starts with the largest micro-batch that an update can have,
and halves it until the heaviest micro-batch of the plan fits.
"""

import logging
import math
import multiprocessing as mp
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import numpy as np
import torch

from nmt.base.errors import UserError, is_out_of_memory
from nmt.config import Config, Layout
from nmt.data.batch import Batch, Segments
from nmt.data.batching import plan_epoch
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateWork
from nmt.data.plan import EpochPlan, Shape
from nmt.model.build import build_model
from nmt.model.cpu_library import select_library
from nmt.training import distributed
from nmt.training.distributed import Process
from nmt.training.measured_library import measure_library
from nmt.training.memory import available_memory, limit_memory, peak_memory
from nmt.training.metrics import MetricSums
from nmt.training.optimizer import build_optimizer
from nmt.training.updater import Updater, start_tokens_on

logger = logging.getLogger(__name__)

# Tokens of each sentence of a corpus that is not prepared: about the mean of WMT14.
_ASSUMED_LENGTH = 28
# Maximum number of updates of an epoch that are searched for the heaviest micro-batch.
_MAX_UPDATES = 2000
_MIN_GAIN = 0.03  # share of the work that a smaller micro-batch must save, see `balanced_size`


@dataclass(frozen=True)
class Measurement:
    """Memory in bytes of a process that computed updates, and seconds of its last update."""

    peak: int
    available: int
    gradient_seconds: float
    step_seconds: float

    @property
    def fits(self) -> bool:
        """Whether the process used no more memory than was available."""
        return self.peak <= self.available

    def __str__(self) -> str:
        used = f"{self.peak / 1e9:.2f} of {self.available / 1e9:.2f} GB"
        return used if self.fits else f"{used}: too much"


def first_epoch(config: Config, corpus: PreparedCorpus | None) -> tuple[EpochPlan, tuple[int, int]]:
    """Return the plan of the first epoch, and the vocabulary sizes of source and target.

    Without a corpus, the epoch is one update of sentences of a usual length, and both sizes are
    `tokenizer.vocabulary_size`.
    """
    batching, mixing = config.batching, None
    if corpus is not None:
        source, target = corpus.tokenizers()
        sizes = source.vocabulary_size, target.vocabulary_size
        pairs = corpus.train()
        lengths = pairs.source_lengths, pairs.target_lengths
        mixing = corpus.mixing(config.corpus.mixing)
    else:
        sizes = (config.tokenizer.vocabulary_size,) * 2
        length = min(_ASSUMED_LENGTH, batching.max_source_length, batching.max_target_length)
        lengths = (np.full(math.ceil(batching.target_tokens_per_update / length), length),) * 2
    if batching.is_auto:  # any valid size will do: the caller replaces it
        batching = replace(batching, tokens_per_micro_batch=batching.longest)
    start_tokens = start_tokens_on(distributed.local_device())
    plan = plan_epoch(*lengths, batching, config.training.seed, 0, mixing, start_tokens)
    return plan, sizes


def resolve_auto(config: Config, plan: EpochPlan, vocabulary_sizes: tuple[int, int]) -> Config:
    """Replace `batching.tokens_per_micro_batch=auto`; UserError if not even one pair fits."""
    smallest = config.batching.longest
    rows, source, target = heaviest_shapes(config, plan, 1 << 40)[0]  # no limit
    tokens = max(smallest, rows * max(source, target))
    while True:
        shapes = heaviest_shapes(config, plan, tokens)
        found = measure_updates(config, vocabulary_sizes, [shapes, shapes])
        used = found or "out of memory"
        logger.info(f"batching.tokens_per_micro_batch=auto: {tokens:,} tokens: {used}")
        if found is not None and found.fits:
            tokens = balanced_size(config, plan, tokens)
            return replace(config, batching=replace(config.batching, tokens_per_micro_batch=tokens))
        if tokens == smallest:
            raise UserError(
                f"batching.tokens_per_micro_batch=auto: not even one pair of {smallest} tokens"
                " fits in memory; lower batching.max_source_length and batching.max_target_length,"
                " or train a smaller model"
            )
        if config.batching.layout is Layout.packed:
            tokens = -(-tokens // (2 * smallest)) * smallest  # whole rows
        else:
            tokens = max(tokens // 2, smallest)


def heaviest_shapes(config: Config, plan: EpochPlan, tokens: int) -> list[Shape]:
    """Return the heaviest shape of at most `tokens`, and one of the longest source and target."""
    processes, _ = distributed.num_processes(config.training)
    cut = replace(plan, max_micro_batch_tokens=tokens)
    if config.batching.layout is Layout.packed:  # all micro-batches have this shape
        return [cut.micro_batches(0, processes)[0].shape]
    updates = range(0, cut.num_updates, -(-cut.num_updates // _MAX_UPDATES))
    parts = (part for update in updates for part in cut.micro_batches(update, processes))
    heaviest = max(parts, key=lambda part: part.cost)
    source, target = (
        int(of[plan.order].max()) for of in (plan.source_lengths, plan.target_lengths)
    )
    largest = min(tokens, heaviest.padded_tokens)
    return [heaviest.shape, (max(1, largest // max(source, target)), source, target)]


def balanced_size(config: Config, plan: EpochPlan, tokens: int) -> int:
    """Return the largest micro-batch size of `tokens`, `tokens` / 2, … that balances the ranks.

    A size does so if no other one, down to `batching.longest`, saves more than 3 % of the work of
    the busiest rank, summed over updates. Packed rows are always dealt out evenly.
    """
    processes, _ = distributed.num_processes(config.training)
    if processes == 1 or config.batching.layout is Layout.packed:
        return tokens
    sizes = [tokens >> exponent for exponent in range(tokens.bit_length())]
    work = {
        size: replace(plan, max_micro_batch_tokens=size).loads(processes).max(axis=1).sum()
        for size in sizes
        if size >= config.batching.longest
    }
    return max(size for size in work if (1 - _MIN_GAIN) * work[size] <= min(work.values()))


def measure_updates(
    config: Config, vocabulary_sizes: tuple[int, int], updates: Sequence[Sequence[Shape]]
) -> Measurement | None:
    """Measure updates with random ids in a fresh process; return None if memory runs out."""
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = sender, config, vocabulary_sizes, updates
    process = context.Process(target=_measure, args=arguments, daemon=True)
    process.start()
    sender.close()  # so that `recv` ends when the process does
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == 1:  # an exception, whose traceback it has printed
            raise RuntimeError("the process that measures updates has failed") from None
        return None  # killed by the system, which is out of memory
    finally:
        process.terminate()
        process.join()


def _measure(
    sender: Connection,
    config: Config,
    vocabulary_sizes: tuple[int, int],
    updates: Sequence[Sequence[Shape]],
) -> None:
    """Compute the updates in this process and send the measurement."""
    _, on_host = distributed.num_processes(config.training)
    torch.set_num_threads(distributed.threads_per_process(config.training.num_threads, on_host))
    device = distributed.local_device()
    available = available_memory(device, on_host * config.run.parallel_runs)
    if device.type == "cpu":
        limit_memory(available)
    try:
        select_library(measure_library(config.model.width, config.model.feed_forward_width))
        network = build_model(config.model, *vocabulary_sizes).to(device).train()
        optimizer = build_optimizer(network, config.optimizer)
        updater = Updater(config, network, optimizer, Process(0, 1, device), MetricSums())
        for shapes in updates:
            work = _random_work(shapes, vocabulary_sizes, config.batching.layout)
            start = _now(device)
            gradient = updater.gradient(work, lambda: None)
            middle = _now(device)
            updater.step(gradient, 1)
            seconds = middle - start, _now(device) - middle
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        sender.send(None)
    else:
        sender.send(Measurement(peak_memory(device), available, *seconds))


def _now(device: torch.device) -> float:
    """Return a time in seconds: on a CPU, the CPU time of this thread."""
    if device.type == "cpu":
        return time.thread_time()
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _random_work(
    shapes: Sequence[Shape], vocabulary_sizes: tuple[int, int], layout: Layout
) -> UpdateWork:
    """Return an update of micro-batches of random ids without padding."""
    source_size, target_size = vocabulary_sizes
    micro_batches = {}
    for number, (rows, source_length, target_length) in enumerate(shapes):
        source = torch.randint(source_size, (rows, source_length))
        target = torch.randint(target_size, (rows, target_length))
        segments = None
        if layout is Layout.packed:  # one pair per row
            positions = [torch.arange(ids.size(1)).expand_as(ids) for ids in (source, target)]
            ones = [torch.ones_like(ids) for ids in (source, target)]
            segments = Segments(ones[0], positions[0], ones[1], positions[1])
        masks = source >= 0, target >= 0
        batch = Batch(source, masks[0], target, target, masks[1], target.numel(), segments)
        micro_batches[number] = batch
    tokens = sum(batch.num_target_tokens for batch in micro_batches.values())
    start = Position()
    return UpdateWork(start, 0, tokens, list(shapes), len(shapes), micro_batches, start)
