"""The memory that training takes, predicted from sizes and lengths before any of it is taken.

Each weight is there four times, in float32: itself, its gradient and two moments of the
optimizer (Muon has one for matrices of layers, but they are counted as the others); a fifth time
where several processes share gradients, and once more in bfloat16 where that is computed in.
Averaging takes checkpoints from the disk and holds nothing while training runs.

What a micro-batch adds is what the forward pass keeps for the backward pass. For each place, in
numbers (D, F, H·d_k and H·d_v as in docs/vocabulary.md):

    attention        queries and what was attended to: H·d_k + H·d_v for a place that attends,
                     keys and values: H·d_k + H·d_v for a place that is attended to
    residual + norm  the sum and its norm: 2·D, and the mask of dropout
    feed-forward     F (twice with GELU), and again with the mask where its dropout is on
    embedding        D and the mask of dropout

On CPUs a mask has 16 bits a number, and after a ReLU there is none (`nmt.model.dropout`); dropout
on attention weights keeps two numbers and a mask for each pair of places and head, or three numbers
in half precision, as the kernel that needs none of them knows no dropout there. To this comes what
the loss and one layer's backward pass hold for a moment.

A CPU's allocator seldom gives back or joins what was freed in between: what was measured is 1.5 to
1.8 times the sum (docs/performance.md), so the prediction takes 1.75 times. On a GPU torch's own
allocator rounds little.
"""

from dataclasses import dataclass

from nmt.config import Activation, DecodingConfig, DecodingPrecision, ModelConfig, Positions
from nmt.model.slots import slot_capacity

_FLOAT = 4
_HALF = 2
_LEVEL = 2
# Rows of logits that the loss holds at a time on CPUs; see nmt.training.loss.
_LOSS_CHUNK = 512
_CPU_SCATTER = 1.75
# What torch's libraries take at their first use.
_CPU_LIBRARIES = 110_000_000


@dataclass(frozen=True)
class Shape:
    """`rows` pairs, padded to `source` and `target` tokens."""

    rows: int
    source: int
    target: int


@dataclass(frozen=True)
class Arithmetic:
    """Where training computes, and how.

    Attributes:
        is_half: forward and backward are in bfloat16; weights and norms stay in float32.
        is_cuda: on a GPU.
        is_shared: several processes share their gradients.
        num_workers: most batches that validation's search decodes at once.
        num_passes: how often a micro-batch goes through the model before the backward pass.
    """

    is_half: bool = False
    is_cuda: bool = False
    is_shared: bool = False
    num_workers: int = 1
    num_passes: int = 1


@dataclass(frozen=True)
class Memory:
    """Bytes of one process that trains.

    Attributes:
        program: taken before there is a model.
        weights: of the model, in all widths it is kept in.
        gradients: of all weights, and the room to share them.
        optimizer: the two moments.
        micro_batch: what the largest micro-batch adds.
        search: what validation's beam search adds in its stead: all batches that are decoded at
            once, and the weights that it decodes with.
    """

    program: int
    weights: int
    gradients: int
    optimizer: int
    micro_batch: int
    search: int

    @property
    def total(self) -> int:
        """The peak."""
        steady = self.program + self.weights + self.gradients + self.optimizer
        return steady + max(self.micro_batch, self.search)


@dataclass(frozen=True)
class Workload:
    """The heaviest that a run meets.

    Attributes:
        shapes: of micro-batches.
        search: of the batches that validation decodes, the longest first: sentences, their longest
            source, and the most tokens that a translation may have.
    """

    shapes: list[Shape]
    search: list[Shape]


def training_memory(
    config: ModelConfig,
    decoding: DecodingConfig,
    num_parameters: int,
    target_vocabulary_size: int,
    workload: Workload,
    arithmetic: Arithmetic,
    program: int = 0,
) -> Memory:
    """What one process takes that trains with this workload.

    Args:
        config: sizes of the model.
        decoding: validation's search.
        num_parameters: of the model.
        target_vocabulary_size: V of the target.
        workload: the heaviest micro-batches and search.
        arithmetic: where and how it computes.
        program: bytes that the process takes before there is a model.
    """
    float_bytes = _FLOAT * num_parameters
    scatter = 1.0 if arithmetic.is_cuda else _CPU_SCATTER
    micro_batch = max(
        micro_batch_memory(config, target_vocabulary_size, shape, arithmetic)
        for shape in workload.shapes
    )
    search = sum(
        search_memory(config, decoding.beam_size, target_vocabulary_size, batch)
        for batch in workload.search[: arithmetic.num_workers]
    )
    # Decoding has the weights once more: packed for a CPU, or in another precision.
    has_own = not arithmetic.is_cuda or decoding.precision is not DecodingPrecision.float32
    return Memory(
        program=program + (0 if arithmetic.is_cuda else _CPU_LIBRARIES),
        weights=float_bytes + (_HALF * num_parameters if arithmetic.is_half else 0),
        gradients=float_bytes * (2 if arithmetic.is_shared else 1),
        optimizer=2 * float_bytes,
        micro_batch=int(scatter * micro_batch),
        search=int(scatter * search) + (float_bytes if has_own else 0),
    )


def micro_batch_memory(
    config: ModelConfig, target_vocabulary_size: int, shape: Shape, arithmetic: Arithmetic
) -> int:
    """Bytes that forward and backward of one micro-batch add at their peak."""
    width = config.width
    linear = _HALF if arithmetic.is_half else _FLOAT
    cast = _HALF * width if arithmetic.is_half else 0  # an input of a linear map, made narrow
    mask = 1 if arithmetic.is_cuda else _LEVEL
    heads = config.num_heads * (config.head_key_width + config.head_value_width)
    asking = cast + linear * heads
    offering = 2 * cast + linear * heads
    # On CPUs what was turned need not be kept.
    if config.positions is Positions.rotary and arithmetic.is_cuda:
        asking += _FLOAT * config.num_heads * config.head_key_width
        offering += _FLOAT * config.num_heads * config.head_key_width
    dropped = mask * width if config.dropout else 0
    residual = 2 * _FLOAT * width + dropped
    inner = linear * config.feed_forward_width
    feed_forward = cast + inner * (2 if config.activation is Activation.gelu else 1)
    if config.activation_dropout and arithmetic.is_cuda:
        feed_forward += inner + mask * config.feed_forward_width
    elif config.activation_dropout and config.activation is Activation.gelu:
        feed_forward += mask * config.feed_forward_width
    source, target = shape.rows * shape.source, shape.rows * shape.target
    own = asking + offering + feed_forward + 2 * residual
    encoder = config.num_encoder_layers * source * own
    decoder = config.num_decoder_layers * (target * (own + asking + residual) + source * offering)
    embeddings = (source + target) * (_FLOAT * width + dropped)
    kept = encoder + decoder + embeddings + _attention_weights(config, shape, arithmetic)
    kept *= arithmetic.num_passes
    passing = max(source, target) * (2 * inner + 3 * _FLOAT * width)
    return kept + max(passing, _loss(config, target_vocabulary_size, target, arithmetic))


def _attention_weights(config: ModelConfig, shape: Shape, arithmetic: Arithmetic) -> int:
    if not config.attention_dropout or arithmetic.is_cuda:
        return 0
    encoder = config.num_encoder_layers * shape.source**2
    decoder = config.num_decoder_layers * (shape.target**2 + shape.target * shape.source)
    kept = 3 * _FLOAT if arithmetic.is_half else 2 * _FLOAT + _LEVEL
    return kept * shape.rows * config.num_heads * (encoder + decoder)


def _loss(
    config: ModelConfig, vocabulary_size: int, num_tokens: int, arithmetic: Arithmetic
) -> int:
    """The projection and the cross-entropy, with their gradients."""
    passes = arithmetic.num_passes
    hidden = 4 * _FLOAT * passes * num_tokens * config.width
    if arithmetic.is_half:
        # Logits narrow and wide, their log-softmax, and the gradients of both.
        apart = 4 * _FLOAT if passes > 1 else 0  # two probabilities, what is between them
        row = passes * (2 * _HALF + 3 * _FLOAT) + apart
        return hidden + num_tokens * vocabulary_size * row
    # One chunk's logits, which become their own gradient, while the next one's are made; with two
    # passes the probabilities and what is between them, too.
    held = 2 if passes == 1 else 6
    logits = held * _FLOAT * min(num_tokens, _LOSS_CHUNK) * vocabulary_size
    return hidden + logits + _FLOAT * vocabulary_size * config.width


def search_memory(
    config: ModelConfig, num_beams: int, target_vocabulary_size: int, shape: Shape
) -> int:
    """Bytes that beam search adds at the last step of one batch, in float32."""
    rows = shape.rows * num_beams
    heads = config.num_heads * (config.head_key_width + config.head_value_width)
    # Hypotheses share the slots of what they have in common; these here have nothing.
    slots = shape.rows * slot_capacity(num_beams * shape.target)
    # When they grow and when sentences leave, keys or values of one layer at a time are copied.
    wider = config.num_heads * max(config.head_key_width, config.head_value_width)
    cache = _FLOAT * slots * (heads * config.num_decoder_layers + wider)
    memory = _FLOAT * shape.rows * shape.source * heads * config.num_decoder_layers
    logits = 3 * _FLOAT * rows * target_vocabulary_size
    return cache + memory + logits
