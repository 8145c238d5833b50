"""What a training would take, before anything is spent: parameters, memory, work, time, epochs.

The time comes from some real micro-batches that go through the real updater and are thrown away:
they grow until they are as large as the run's, or until one takes too long. What they reach in
floating-point operations a second is what the updates of the plan are divided by.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from nmt.config import Config
from nmt.data.batch import Batch
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position, UpdateLoader
from nmt.errors import first_line
from nmt.model import cost
from nmt.model.cost import Processed, training_flops
from nmt.model.memory import Memory, Shape, Workload
from nmt.model.transformer import planned_parameters
from nmt.tokenizer import Tokenizer
from nmt.trained_model import special_ids
from nmt.training import distributed
from nmt.training.optimizer import step_flops
from nmt.training.rehearsal import Rehearsal
from nmt.training.updater import OutOfMemory, is_out_of_memory
from nmt.training.workload import (
    Sizes,
    Surroundings,
    corpus_sizes,
    largest_predicted,
    memory_of,
    search_batches,
    shared_evenly,
    surroundings,
    workload,
)

logger = logging.getLogger(__name__)

# Tokens of the first micro-batch that is timed, and seconds that the last one may take.
_FIRST_TOKENS = 256
_LONGEST_SECONDS = 1.5
_TIMED = 3
# Updates that the work of an update is averaged over.
_MOST_UPDATES = 200
# What processes lose below this is worth a word.
_UNEVEN = 0.9
_TOO_MUCH = (
    ". That is too much: lower batching.tokens_per_micro_batch, or decoding.batch_size and"
    " decoding.num_workers where the search is larger, or take fewer processes"
)
# Tokens of a made-up sentence, where no corpus says how long they are: about WMT14's mean.
_MADE_UP_LENGTH = 28


@dataclass(frozen=True)
class Speed:
    """What this device does.

    Attributes:
        flops_per_second: in forward and backward passes.
        step_seconds: of an optimizer's step, the mean.
        tokens: padded tokens of the micro-batches that were timed.
    """

    flops_per_second: float
    step_seconds: float
    tokens: int


@dataclass(frozen=True)
class Plan:
    """What is known before training.

    Attributes:
        vocabulary_sizes: V of the source and of the target.
        flops_per_update: mean, of forward and backward passes.
        tokens: padded tokens of the largest micro-batches.
        workload: the heaviest.
        batch_of: a micro-batch of so many padded tokens.
        epoch: a sentence about the length of an epoch.
        evenness: of the processes' shares; None where it is unknown.
    """

    vocabulary_sizes: tuple[int, int]
    flops_per_update: float
    tokens: int
    workload: Workload
    batch_of: Callable[[int], Batch]
    epoch: str
    evenness: float | None = None


def dry_run(config: Config, corpus_folder: Path | None) -> None:
    """Say what training would take; nothing is written.

    Args:
        config: the experiment.
        corpus_folder: its prepared corpus; None where it is not prepared yet.
    """
    training = config.training
    _, local_processes = distributed.num_processes(training)
    torch.set_num_threads(distributed.threads_per_process(training.num_threads, local_processes))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    where = surroundings(config, device)
    plan = _plan(config, where, PreparedCorpus(corpus_folder) if corpus_folder else None)
    logger.info("dry run: nothing is trained and nothing is written")
    parameters = planned_parameters(config.model, *plan.vocabulary_sizes)
    logger.info("parameters   %s", f"{parameters:,}")
    memory = memory_of(config, plan.vocabulary_sizes, plan.workload, where)
    logger.info("memory       %s", _told(memory))
    logger.info(
        "             of %s GB that a process may take; processes on this host: %d%s",
        f"{where.room / 1e9:.2f}",
        local_processes,
        "" if memory.total <= where.room else _TOO_MUCH,
    )
    logger.info("epoch        %s", plan.epoch)
    flops = plan.flops_per_update + step_flops(config.optimizer, config.model)
    logger.info(
        "work         %.3g floating-point operations an update, %.3g in %s updates",
        flops,
        flops * training.max_updates,
        f"{training.max_updates:,}",
    )
    if memory.total > where.room:
        logger.info("time         not measured: it does not fit in memory")
        return
    try:
        speed = _speed(config, plan, device)
    except (OutOfMemory, MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        logger.info("time         not measured: %s", first_line(error))
        return
    _tell_time(config, plan, speed, device)


def _tell_time(config: Config, plan: Plan, speed: Speed, device: torch.device) -> None:
    """Say how long training should take, and how that was measured."""
    training = config.training
    processes, _ = distributed.num_processes(training)
    computing = plan.flops_per_update / speed.flops_per_second / processes
    seconds = computing / (plan.evenness or 1.0) + speed.step_seconds
    whole = seconds * training.max_updates
    limit = training.max_minutes * 60
    logger.info(
        "time         %s s an update, %s in all%s",
        f"{seconds:.3g}",
        _duration(whole),
        f" (training.max_minutes ends it after {_duration(limit)})" if 0 < limit < whole else "",
    )
    logger.info(
        "             measured: %d micro-batches of at most %s padded tokens on %s, %.3g"
        " floating-point operations a second%s; validation is not counted",
        _TIMED,
        f"{speed.tokens:,}",
        torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU",
        speed.flops_per_second,
        _shared(processes, plan.evenness),
    )


def _plan(config: Config, where: Surroundings, corpus: PreparedCorpus | None) -> Plan:
    if corpus is None:
        return _plan_without_corpus(config, where.arithmetic.num_workers)
    sizes = corpus_sizes(config, corpus)
    tokens = (
        shared_evenly(config, sizes, largest_predicted(config, sizes, where))
        if config.batching.is_auto
        else config.batching.max_micro_batch_tokens
    )
    batching = replace(config.batching, tokens_per_micro_batch=tokens)
    ids = (
        special_ids(Tokenizer(corpus.source_tokenizer)),
        special_ids(Tokenizer(corpus.target_tokenizer)),
    )
    loader = UpdateLoader(corpus.train(), batching, config.training.seed, *ids)
    plan = replace(sizes.plan, max_micro_batch_tokens=tokens)
    num_updates = plan.num_updates

    def batch_of(most_tokens: int) -> Batch:
        loader.max_micro_batch_tokens = most_tokens
        return loader.work(Position(0, num_updates // 2)).micro_batches[0].batch

    pairs = len(plan.order)
    epochs = config.training.max_updates / num_updates
    return Plan(
        sizes.vocabulary_sizes,
        _mean_flops(config, replace(sizes, plan=plan)),
        tokens,
        workload(config, sizes, tokens),
        batch_of,
        f"{num_updates:,} updates, {pairs:,} pairs; training is {epochs:,.1f} epochs"
        + (
            f"; batching.tokens_per_micro_batch=auto: {tokens:,} by prediction, measured"
            " when training begins"
            if config.batching.is_auto
            else ""
        ),
        plan.evenness(distributed.num_processes(config.training)[0]),
    )


def _mean_flops(config: Config, sizes: Sizes) -> float:
    plan = sizes.plan
    step = -(-plan.num_updates // _MOST_UPDATES)
    updates = range(0, plan.num_updates, step)
    processed = Processed()
    for update in updates:
        for part in plan.micro_batches(update):
            tokens = int(plan.target_lengths[part].sum())
            processed += cost.micro_batch(*plan.shape(part), tokens, config.training.num_passes)
    return training_flops(config.model, sizes.vocabulary_sizes[1], processed) / len(updates)


def _plan_without_corpus(config: Config, num_workers: int) -> Plan:
    """What can be said without text: the sizes that the configuration asks for."""
    batching = config.batching
    vocabulary_sizes = (config.tokenizer.vocabulary_size,) * 2
    longest, length = batching.longest, min(_MADE_UP_LENGTH, batching.longest)
    tokens = batching.target_tokens_per_update
    if not batching.is_auto:
        tokens = batching.max_micro_batch_tokens
    rows = max(1, batching.target_tokens_per_update // length)
    num_passes = config.training.num_passes
    processed = cost.micro_batch(rows, length, length, rows * length, num_passes)
    heaviest = Workload(
        [Shape(max(1, tokens // longest), longest, longest)],
        search_batches(config, [longest] * config.decoding.batch_size * num_workers),
    )

    def batch_of(most_tokens: int) -> Batch:
        shape = (max(1, most_tokens // length), length)
        source, target = (
            torch.randint(size, shape, dtype=torch.int64) for size in vocabulary_sizes
        )
        mask = torch.ones_like(source, dtype=torch.bool)
        return Batch(source, mask, target, target, mask, target.numel())

    return Plan(
        vocabulary_sizes,
        training_flops(config.model, vocabulary_sizes[1], processed),
        tokens,
        heaviest,
        batch_of,
        "unknown: the corpus is not prepared (`make prepare` does that); until then sentences are"
        f" taken to have {length} tokens, and memory is that of the longest admitted",
    )


def _speed(config: Config, plan: Plan, device: torch.device) -> Speed:
    rehearsal = Rehearsal(config, plan.vocabulary_sizes, device)

    def timed(batch: Batch) -> tuple[float, float]:
        """Seconds and floating-point operations."""
        rows, source = batch.source.shape
        target = batch.target_input.size(1)
        num_passes = config.training.num_passes
        processed = cost.micro_batch(rows, source, target, batch.num_target_tokens, num_passes)
        started = time.perf_counter()
        rehearsal.gradient([batch])
        seconds = time.perf_counter() - started
        return seconds, training_flops(config.model, plan.vocabulary_sizes[1], processed)

    tokens = min(_FIRST_TOKENS, plan.tokens)
    for _ in range(2):  # the first ones take memory and start threads
        timed(plan.batch_of(tokens))
        rehearsal.step()
    seconds, _ = timed(plan.batch_of(tokens))
    while tokens < plan.tokens and 2 * seconds < _LONGEST_SECONDS:
        tokens = min(2 * tokens, plan.tokens)
        seconds, _ = timed(plan.batch_of(tokens))
    all_seconds, all_flops, step_seconds = 0.0, 0.0, 0.0
    for _ in range(_TIMED):
        seconds, flops = timed(plan.batch_of(tokens))
        all_seconds, all_flops = all_seconds + seconds, all_flops + flops
        started = time.perf_counter()
        rehearsal.step()
        step_seconds += time.perf_counter() - started
    return Speed(all_flops / all_seconds, step_seconds / _TIMED, tokens)


def _told(memory: Memory) -> str:
    parts = {
        "program": memory.program,
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimizer": memory.optimizer,
        "micro-batch": memory.micro_batch,
        "or in its stead validation's search": memory.search,
    }
    sizes = ", ".join(f"{name} {size / 1e9:.2f}" for name, size in parts.items())
    return f"predicted {memory.total / 1e9:.2f} GB: {sizes}"


def _shared(processes: int, evenness: float | None) -> str:
    if processes == 1:
        return ""
    if evenness is None:
        return f"; {processes} processes, as if they shared evenly and at no cost"
    text = f"; {processes} processes, busy for {100 * evenness:.0f} % of it, sharing at no cost"
    if evenness < _UNEVEN:
        text += " (batching.tokens_per_micro_batch=auto lets them share evenly)"
    return text


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if hours >= 48:
        return f"{hours / 24:.1f} days"
    return f"{hours:.1f} hours" if hours >= 2 else f"{minutes:.1f} minutes"
