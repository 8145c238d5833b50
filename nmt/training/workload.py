"""The heaviest that a run meets, and the memory that this should take."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from nmt.config import Config, Precision
from nmt.data.batching import EpochPlan, eligible_pairs, plan_epoch
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
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
from nmt.training.room import program_bytes, room_for_training

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
        search: of what validation decodes at once.
    """

    vocabulary_sizes: tuple[int, int]
    plan: EpochPlan
    longest: tuple[int, int]
    search: Shape


def corpus_sizes(config: Config, corpus: PreparedCorpus) -> Sizes:
    """Read them."""
    pairs = corpus.train()
    lengths = pairs.source_lengths, pairs.target_lengths
    # Any number will do: it is replaced whenever the plan is cut.
    batching = replace(config.batching, target_tokens_per_micro_batch=config.batching.longest)
    eligible = eligible_pairs(*lengths, batching)
    if not len(eligible):
        raise UserError("none of the training pairs fits in batching.max_source_length")
    tokenizer = Tokenizer(corpus.source_tokenizer)
    sources = [len(ids) + 1 for ids in tokenizer.encode(corpus.read_text("valid")[0])]
    return Sizes(
        (tokenizer.vocabulary_size, Tokenizer(corpus.target_tokenizer).vocabulary_size),
        plan_epoch(*lengths, batching, config.training.seed, 0),
        (int(lengths[0][eligible].max()), int(lengths[1][eligible].max())),
        search_shape(config, len(sources), max(sources)),
    )


def search_shape(config: Config, num_sentences: int, source_length: int) -> Shape:
    """What the search decodes at once of so many sentences, the longest of so many tokens."""
    decoding = config.decoding
    source = min(source_length, config.batching.max_source_length)
    longest = int(decoding.max_length_ratio * source) + decoding.max_length_offset
    target = min(longest, config.model.max_length)
    return Shape(min(num_sentences, decoding.batch_size), source, target)


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
        return micro_batch_memory(config.model, sizes.vocabulary_sizes[1], shape, Arithmetic())

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
    processes = config.training.num_processes * config.training.num_hosts
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
        config.decoding.beam_size,
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
    """Of this process, for a training on this device."""
    training = config.training
    is_cuda = device.type == "cuda"
    has_half = is_cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    is_half = training.precision is Precision.bfloat16 or (
        training.precision is Precision.auto and has_half
    )
    is_shared = training.num_processes * training.num_hosts > 1
    room = room_for_training(device, training.num_processes)
    return Surroundings(
        Arithmetic(is_half, is_cuda, is_shared), 0 if is_cuda else program_bytes(), room
    )
