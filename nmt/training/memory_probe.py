"""Measure the memory and time of updates in a fresh process, and find a micro-batch size that fits.

`batching.tokens_per_micro_batch=auto` starts with the largest micro-batch that an update can have,
and halves it until the heaviest micro-batch of the plan fits.
"""

import logging
import multiprocessing as mp
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch

from nmt.base.errors import UserError
from nmt.config import Config
from nmt.data.batch import Batch
from nmt.data.batching import EpochPlan, plan_epoch
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import MicroBatch, Position, UpdateWork
from nmt.model import cpu
from nmt.model.cpu_library import measure_library
from nmt.model.transformer import Transformer
from nmt.tokenizer import Tokenizer
from nmt.training import distributed
from nmt.training.distributed import Process
from nmt.training.memory import available_memory, limit_memory, peak_memory
from nmt.training.metrics import MetricSums
from nmt.training.optimizer import build_optimizer
from nmt.training.updater import Updater, is_out_of_memory

logger = logging.getLogger(__name__)

Shape = tuple[int, int, int]
"""Pairs, padded source length and padded target length of a micro-batch."""

# Updates of an epoch that are searched for the heaviest micro-batch.
_MAX_UPDATES = 2000
# Ranks that are less busy than this on average get smaller micro-batches, in steps of this factor.
_EVEN = 0.97
_SMALLER = 0.84


@dataclass(frozen=True)
class Measurement:
    """Memory in bytes of a process that made updates, and seconds of all updates but the first."""

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


def first_epoch(config: Config, corpus: PreparedCorpus) -> tuple[EpochPlan, tuple[int, int]]:
    """The plan of the first epoch, and the vocabulary sizes of source and target."""
    pairs, batching = corpus.train(), config.batching
    lengths = pairs.source_lengths, pairs.target_lengths
    source, target = Tokenizer(corpus.source_tokenizer), Tokenizer(corpus.target_tokenizer)
    sizes = source.vocabulary_size, target.vocabulary_size
    if batching.is_auto:  # the size only splits updates
        batching = replace(batching, tokens_per_micro_batch=batching.longest)
    return plan_epoch(*lengths, batching, config.training.seed, epoch=0), sizes


def resolve_auto(config: Config, plan: EpochPlan, vocabulary_sizes: tuple[int, int]) -> Config:
    """Replace `batching.tokens_per_micro_batch=auto` by the largest size that fits.

    Raises:
        UserError: not even one pair of the longest sentences fits.
    """
    smallest = config.batching.longest
    rows, source, target = heaviest_shapes(plan, 1 << 40)[0]
    tokens = max(smallest, rows * max(source, target))
    while True:
        shapes = heaviest_shapes(plan, tokens)
        found = measure_updates(config, vocabulary_sizes, [shapes, shapes])
        used = found or "out of memory"
        logger.info("batching.tokens_per_micro_batch=auto: %s tokens: %s", f"{tokens:,}", used)
        if found is not None and found.fits:
            break
        if tokens == smallest:
            raise UserError(
                f"batching.tokens_per_micro_batch=auto: not even one pair of {smallest} tokens"
                " fits in memory; lower batching.max_source_length and batching.max_target_length,"
                " or train a smaller model"
            )
        tokens = max(tokens // 2, smallest)
    tokens = even_size(config, plan, tokens)
    return replace(config, batching=replace(config.batching, tokens_per_micro_batch=tokens))


def heaviest_shapes(plan: EpochPlan, tokens: int) -> list[Shape]:
    """The heaviest micro-batch of this size, and one of the longest source and target together."""
    cut = replace(plan, max_micro_batch_tokens=tokens)
    updates = range(0, cut.num_updates, -(-cut.num_updates // _MAX_UPDATES))
    shapes = [cut.shape(part) for update in updates for part in cut.micro_batches(update)]
    heaviest = max(shapes, key=lambda shape: shape[0] * (shape[1] + shape[2]))
    source, target = (
        int(lengths[plan.order].max()) for lengths in (plan.source_lengths, plan.target_lengths)
    )
    largest = min(tokens, heaviest[0] * max(heaviest[1:]))
    return [heaviest, (max(1, largest // max(source, target)), source, target)]


def even_size(config: Config, plan: EpochPlan, tokens: int) -> int:
    """The largest size up to `tokens` that keeps all ranks busy, or that which comes nearest."""
    processes, _ = distributed.num_processes(config.training)
    best, evenness = tokens, 0.0
    while tokens >= config.batching.longest and evenness < _EVEN:
        found = replace(plan, max_micro_batch_tokens=tokens).evenness(processes)
        if found > evenness:
            best, evenness = tokens, found
        tokens = int(tokens * _SMALLER)
    return best


def measure_updates(
    config: Config, vocabulary_sizes: tuple[int, int], updates: Sequence[Sequence[Shape]]
) -> Measurement | None:
    """Make updates of random ids in a fresh process; returns None if memory runs out."""
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = sender, config, vocabulary_sizes, updates
    process = context.Process(target=_measure, args=arguments, daemon=True)
    process.start()
    sender.close()  # so that `recv` ends when the process does
    try:
        found: Measurement | None = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == 1:  # an exception, whose traceback it has printed
            raise RuntimeError("the process that measures updates has failed") from None
        found = None  # killed by the system, which is out of memory
    finally:
        process.terminate()
        process.join()
    return found


def _measure(
    sender: Connection,
    config: Config,
    vocabulary_sizes: tuple[int, int],
    updates: Sequence[Sequence[Shape]],
) -> None:
    """Send the measurement from the fresh process."""
    training = config.training
    _, on_host = distributed.num_processes(training)
    torch.set_num_threads(distributed.threads_per_process(training.num_threads, on_host))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    available = available_memory(device, on_host)
    if device.type == "cpu":
        limit_memory(available)
    found = None
    try:
        seconds = _make_updates(config, vocabulary_sizes, updates, device)
        found = Measurement(peak_memory(device), available, *seconds)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    sender.send(found)


def _make_updates(
    config: Config,
    vocabulary_sizes: tuple[int, int],
    updates: Sequence[Sequence[Shape]],
    device: torch.device,
) -> tuple[float, float]:
    """Seconds of gradients and of optimizer steps, without the first update."""
    cpu.select_library(measure_library(config.model.width, config.model.feed_forward_width))
    transformer = Transformer(config.model, *vocabulary_sizes).to(device).train()
    optimizer = build_optimizer(transformer, config.optimizer)
    updater = Updater(config, transformer, optimizer, Process(0, 1, device), MetricSums())

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    times = []
    for number, shapes in enumerate(updates):
        batches = [_random_batch(shape, vocabulary_sizes) for shape in shapes]
        micro_batches = [MicroBatch(index, batch) for index, batch in enumerate(batches)]
        tokens = sum(batch.num_target_tokens for batch in batches)
        work = UpdateWork(
            0, number, 0, tokens, list(shapes), len(batches), micro_batches, Position()
        )
        start = now()
        gradient = updater.gradient(work, lambda: None)
        middle = now()
        updater.step(gradient, 1)
        times.append((middle - start, now() - middle))
    gradients, steps = zip(*times[1:], strict=True)
    return sum(gradients), sum(steps)


def _random_batch(shape: Shape, vocabulary_sizes: tuple[int, int]) -> Batch:
    rows, source_length, target_length = shape
    source = torch.randint(vocabulary_sizes[0], (rows, source_length))
    target = torch.randint(vocabulary_sizes[1], (rows, target_length))
    return Batch(source, source >= 0, target, target, target >= 0, target.numel())
