"""Floating-point operations (FLOPs) of training, from the sizes of the model and the batches.

FLOPs are those of matrix products, two for each multiply-add, as `torch.utils.flop_counter` counts
them: embeddings, norms, softmax, dropout and the optimizer are left out, and masked attention
counts in full. The backward pass costs twice the forward pass: each product has one gradient
product for either factor.
"""

from dataclasses import astuple, dataclass

from nmt.config import ModelConfig

_FLOPS_PER_MULTIPLY_ADD = 2
_FORWARD_AND_BACKWARD = 3


@dataclass(frozen=True)
class Processed:
    """Sizes that FLOPs are a linear function of, summed over micro-batches of B pairs.

    Attributes:
        source: source positions B·S, padding included.
        target: target positions B·T, padding included.
        source_squares: B·S².
        target_squares: B·T².
        source_target: B·S·T.
        projected: target tokens, padding excluded.
    """

    source: int = 0
    target: int = 0
    source_squares: int = 0
    target_squares: int = 0
    source_target: int = 0
    projected: int = 0

    def __add__(self, other: "Processed") -> "Processed":
        return Processed(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def micro_batch(rows: int, source: int, target: int, num_target_tokens: int) -> Processed:
    """Return the sizes of one micro-batch.

    Args:
        rows: pairs B.
        source: padded source length S.
        target: padded target length T.
        num_target_tokens: target tokens, padding excluded.
    """
    return Processed(
        rows * source,
        rows * target,
        rows * source**2,
        rows * target**2,
        rows * source * target,
        num_target_tokens,
    )


def training_flops(config: ModelConfig, target_vocabulary_size: int, processed: Processed) -> int:
    """Compute the FLOPs of forward and backward passes.

    Args:
        config: sizes of the model.
        target_vocabulary_size: V of the target.
        processed: sizes of all micro-batches, summed.
    """
    # Multiply-adds of Q K^T, and of the product of the weights with V, for a query and a key.
    attention = config.num_heads * (config.head_key_width + config.head_value_width)
    # W^Q and W^O for a query have as many weights as W^K and W^V for a key.
    projections = config.width * attention
    feed_forward = 2 * config.width * config.feed_forward_width
    encoder_layer = (
        processed.source * (2 * projections + feed_forward) + processed.source_squares * attention
    )
    decoder_layer = (
        processed.target * (3 * projections + feed_forward)
        + processed.source * projections  # keys and values of cross-attention
        + (processed.target_squares + processed.source_target) * attention
    )
    forward = (
        config.num_encoder_layers * encoder_layer
        + config.num_decoder_layers * decoder_layer
        + processed.projected * config.width * target_vocabulary_size
    )
    return _FORWARD_AND_BACKWARD * _FLOPS_PER_MULTIPLY_ADD * forward
