"""What training a Transformer costs, counted in floating-point operations (the paper's Table 2).

The paper estimates its figures from hours times the sustained speed of a GPU. Here they are counted
from the matrix products, two operations (a product and a sum) for each pair of numbers that meet,
as `torch.utils.flop_counter` does it. With source places s and target places t, padding included:

    encoder layer     s · (2·D·H·(2·d_k + d_v) + 2·H·d_v·D + 4·D·F) + s² · 2·H·(d_k + d_v)
    decoder layer     t · (the same) + t² · 2·H·(d_k + d_v)          self-attention, feed-forward
                      + t · (2·D·H·d_k + 2·H·d_v·D) + s · 2·D·H·(d_k + d_v)    cross-attention's
                      + s·t · 2·H·(d_k + d_v)                                  four matrices, and it
    projection        2·D·V for each real target token, the only ones that are projected

Self-attention of the decoder counts in full, though half of it is masked. Embeddings, norms,
softmax, dropout and the optimizer's step are left out: they hold no matrix product, but for Muon's
step, which `nmt.training.optimizer.step_flops` counts. The backward pass costs twice the forward
pass, since each product gives rise to two: one for the gradient of its input and one for that of
its weights (or, in attention, for those of both its factors).
"""

from dataclasses import dataclass

from nmt.config import ModelConfig

_FORWARD_AND_BACKWARD = 3
"""Forward, and backward at twice its cost."""


@dataclass(frozen=True)
class Processed:
    """What went through the model, summed over micro-batches of B rows; it can be added up.

    Attributes:
        source: source places, B·S, padding included.
        target: target places, B·T.
        source_squares: B·S², the pairs of encoder self-attention.
        target_squares: B·T², those of decoder self-attention.
        crossed: B·S·T, those of cross-attention.
        projected: real target tokens.
    """

    source: int = 0
    target: int = 0
    source_squares: int = 0
    target_squares: int = 0
    crossed: int = 0
    projected: int = 0

    def __add__(self, other: "Processed") -> "Processed":
        return Processed(
            self.source + other.source,
            self.target + other.target,
            self.source_squares + other.source_squares,
            self.target_squares + other.target_squares,
            self.crossed + other.crossed,
            self.projected + other.projected,
        )


def micro_batch(
    rows: int, source: int, target: int, num_target_tokens: int, num_passes: int = 1
) -> Processed:
    """One micro-batch: (B, S) sources and (B, T) targets with so many real target tokens.

    With R-Drop it goes through the model twice, which is as if it had twice the rows.
    """
    rows, num_target_tokens = num_passes * rows, num_passes * num_target_tokens
    return Processed(
        rows * source,
        rows * target,
        rows * source**2,
        rows * target**2,
        rows * source * target,
        num_target_tokens,
    )


def training_flops(config: ModelConfig, target_vocabulary_size: int, processed: Processed) -> int:
    """Floating-point operations of forward and backward passes.

    Args:
        config: sizes of the model.
        target_vocabulary_size: V of the target.
        processed: what all processes together went through.
    """
    width = config.width
    keys = config.num_heads * config.head_key_width  # H·d_k
    values = config.num_heads * config.head_value_width  # H·d_v
    attending = 2 * (keys + values)  # a query place and a place it attends to
    querying = 2 * width * keys + 2 * values * width  # W^Q and W^O
    offering = 2 * width * (keys + values)  # W^K and W^V
    own = querying + offering + 4 * width * config.feed_forward_width  # a place in either stack
    encoder = processed.source * own + processed.source_squares * attending
    decoder = (
        processed.target * (own + querying)
        + processed.source * offering
        + (processed.target_squares + processed.crossed) * attending
    )
    forward = config.num_encoder_layers * encoder + config.num_decoder_layers * decoder
    projection = processed.projected * 2 * width * target_vocabulary_size
    return _FORWARD_AND_BACKWARD * (forward + projection)
