"""The heaviest that a run meets, and the memory that this should take."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch

from nmt.config import Config, Precision
from nmt.data.batching import EpochPlan, plan_epoch, trainable_pairs
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.engine import longest_translation, most_together
from nmt.decoding.torch_engine import most_workers
from nmt.model.memory import (
    Arithmetic,
    Memory,
    Shape,
    Workload,
    micro_batch_memory,
    training_memory,
)
from nmt.model.transformer import planned_parameters
from nmt.tokenizer import Tokenizer
from nmt.training import distributed
from nmt.training.room import program_bytes, room_for_training
from nmt.training.updater import precision_on
from nmt.training.validation import valid_text

# Updates of an epoch that are looked through for the heaviest micro-batch.
_MOST_UPDATES = 2000
# From this evenness on, smaller micro-batches would cost more than they gain; what is tried next is
# so much smaller.
_EVEN = 0.97
_SMALLER = 0.84


@dataclass(frozen=True)
class Surroundings:
    """Where a probe finds itself.

    Attributes:
        arithmetic: of the training.
        program: bytes that the process takes before there is a model.
        room: bytes that it may take in all.
    """

    arithmetic: Arithmetic
    program: int
    room: int


@dataclass(frozen=True)
class Sizes:
    """What a corpus brings to the question how much memory is needed.

    Attributes:
        vocabulary_sizes: V of the source and of the target.
        plan: of the first epoch.
        longest: tokens of the longest source and target that are trained on.
        search: of the batches that validation decodes, the longest first.
    """

    vocabulary_sizes: tuple[int, int]
    plan: EpochPlan
    longest: tuple[int, int]
    search: list[Shape]


def corpus_sizes(config: Config, corpus: PreparedCorpus) -> Sizes:
    """Read them.

    Raises:
        UserError: there is nothing to train on, or to validate on.
    """
    pairs = corpus.train()
    lengths = pairs.source_lengths, pairs.target_lengths
    # Any number will do: it is replaced whenever the plan is cut.
    batching = replace(config.batching, tokens_per_micro_batch=config.batching.longest)
    eligible = trainable_pairs(*lengths, batching)
    tokenizer = Tokenizer(corpus.source_tokenizer)
    sources = [len(ids) + 1 for ids in tokenizer.encode(valid_text(corpus)[0])]
    return Sizes(
        (tokenizer.vocabulary_size, Tokenizer(corpus.target_tokenizer).vocabulary_size),
        plan_epoch(*lengths, batching, config.training.seed, 0),
        (int(lengths[0][eligible].max()), int(lengths[1][eligible].max())),
        search_batches(config, sources),
    )


def search_batches(config: Config, source_lengths: Iterable[int]) -> list[Shape]:
    """Sources of so many tokens in the batches that search makes of them, the longest first."""
    ordered = sorted(source_lengths, reverse=True)
    batches = []
    start = 0
    while start < len(ordered):
        source = min(ordered[start], config.batching.max_source_length)
        rows = min(most_together(config.decoding, source), len(ordered) - start)
        start += rows
        target = longest_translation(config.decoding, config.model.max_length, source)
        batches.append(Shape(rows, source, target))
    return batches


def workload(config: Config, sizes: Sizes, tokens: int) -> Workload:
    """The heaviest that comes with micro-batches of so many padded tokens.

    It is what the first epoch's plan has, or what another epoch's might: the longest source beside
    the longest target, in as many rows as a cell has of them.
    """
    plan = replace(sizes.plan, max_micro_batch_tokens=tokens)
    step = -(-plan.num_updates // _MOST_UPDATES)
    found = {
        plan.shape(part)
        for update in range(0, plan.num_updates, step)
        for part in plan.micro_batches(update)
    }
    source, target = sizes.longest
    ordered = plan.target_lengths[plan.order].astype(np.int64)
    in_cells = np.add.reduceat(ordered, plan.cell_starts[:-1])
    rows = min(tokens // max(source, target), int(in_cells.max()) // target)
    longest = Shape(max(1, rows), source, target)

    def weight(shape: Shape) -> int:
        arithmetic = Arithmetic(num_passes=config.training.num_passes)
        return micro_batch_memory(config.model, sizes.vocabulary_sizes[1], shape, arithmetic)

    heaviest = max((Shape(*shape) for shape in found), key=weight)
    return Workload([longest, heaviest], sizes.search)


def largest_useful(config: Config, sizes: Sizes) -> int:
    """Padded tokens above which no micro-batch is larger: an update's own, cell by cell."""
    shapes = workload(config, sizes, 1 << 40).shapes
    return max(shape.rows * max(shape.source, shape.target) for shape in shapes)


def shared_evenly(config: Config, sizes: Sizes, tokens: int) -> int:
    """The largest size up to `tokens` at which the processes have about as much to do.

    Where no size is even enough, as updates are too small for so many, it is the most even one.
    """
    processes, _ = distributed.num_processes(config.training)
    best = tokens, 0.0
    while tokens >= config.batching.longest and best[1] < _EVEN:
        evenness = replace(sizes.plan, max_micro_batch_tokens=tokens).evenness(processes)
        best = max(best, (tokens, evenness), key=lambda tried: tried[1])
        tokens = int(tokens * _SMALLER)
    return best[0]


def predicted(config: Config, sizes: Sizes, tokens: int, where: Surroundings) -> Memory:
    """What training with micro-batches of so many padded tokens should take."""
    return memory_of(config, sizes.vocabulary_sizes, workload(config, sizes, tokens), where)


def memory_of(
    config: Config, vocabulary_sizes: tuple[int, int], heaviest: Workload, where: Surroundings
) -> Memory:
    """What training with this workload should take."""
    return training_memory(
        config.model,
        config.decoding,
        planned_parameters(config.model, *vocabulary_sizes),
        vocabulary_sizes[1],
        heaviest,
        where.arithmetic,
        where.program,
    )


def largest_predicted(config: Config, sizes: Sizes, where: Surroundings) -> int:
    """The largest size of micro-batches that should fit, or that of one longest sentence."""
    low = config.batching.longest
    high = max(low, largest_useful(config, sizes))
    while low < high:
        middle = (low + high + 1) // 2
        if predicted(config, sizes, middle, where).total <= where.room:
            low = middle
        else:
            high = middle - 1
    return low


def surroundings(config: Config, device: torch.device) -> Surroundings:
    """Of this process, whose threads are as many as training's, for a training on this device."""
    is_cuda = device.type == "cuda"
    processes, local_processes = distributed.num_processes(config.training)
    is_half = precision_on(device, config.training.precision) is Precision.bfloat16
    room = room_for_training(device, local_processes)
    return Surroundings(
        Arithmetic(
            is_half,
            is_cuda,
            processes > 1,
            most_workers(config.decoding, device),
            config.training.num_passes,
        ),
        0 if is_cuda else program_bytes(),
        room,
    )
