"""Floating-point operations (FLOPs) of training, counted by torch on the meta device.

Only matrix products count, with two FLOPs for each multiply-add, as in `torch.utils.flop_counter`.
Embeddings, norms, softmax, dropout and the optimizer are left out. Attention counts masked pairs of
positions too.

The FLOPs of a forward pass are a linear function of the sizes in `Processed`. The coefficients of
this function are computed from a few short inputs. The backward pass costs twice the forward pass,
because each product has two gradient products, one for each factor.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import Architecture, ModelConfig
from nmt.model.build import meta_model
from nmt.model.comparators.window import num_scores
from nmt.model.encoder_decoder import EncoderDecoder

_FORWARD_AND_BACKWARD = 3
# (S, T) of the inputs that the coefficients are computed from.
_LENGTHS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 1))


@dataclass(frozen=True)
class Processed:
    """Sizes on which FLOPs depend linearly, summed over micro-batches of B pairs."""

    source: int = 0  # source positions B·S, padding included
    target: int = 0  # target positions B·T, padding included
    source_squares: int = 0  # B·S²; with `model.attention_window`, B · `num_scores(S)`
    target_squares: int = 0  # B·T²; with `model.attention_window`, B · `num_scores(T)`
    source_target: int = 0  # B·S·T
    projected: int = 0  # target tokens, padding excluded

    @classmethod
    def of(
        cls, shapes: Sequence[tuple[int, int, int]], num_target_tokens: int, window: int = 0
    ) -> "Processed":
        """Return the sizes of micro-batches of these shapes (B, S, T).

        `num_target_tokens` excludes padding, and `window` is `model.attention_window`.
        """
        return cls(
            source=sum(b * s for b, s, _ in shapes),
            target=sum(b * t for b, _, t in shapes),
            source_squares=sum(b * num_scores(s, window) for b, s, _ in shapes),
            target_squares=sum(b * num_scores(t, window) for b, _, t in shapes),
            source_target=sum(b * s * t for b, s, t in shapes),
            projected=num_target_tokens,
        )

    def __add__(self, other: "Processed") -> "Processed":
        return Processed(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def training_flops(config: ModelConfig, target_vocabulary_size: int, processed: Processed) -> int:
    """Compute the FLOPs of the forward and backward passes of micro-batches of these sizes."""
    coefficients = _forward_flops(config, target_vocabulary_size)
    forward = sum(a * b for a, b in zip(coefficients, astuple(processed), strict=True))
    return _FORWARD_AND_BACKWARD * forward


@cache
def _forward_flops(config: ModelConfig, target_vocabulary_size: int) -> tuple[int, ...]:
    """Return, for each field of `Processed`, the FLOPs of a forward pass per unit of it."""
    # The size of the source vocabulary has no effect: embeddings are looked up.
    model = meta_model(config, target_vocabulary_size, target_vocabulary_size)
    window = config.attention_window
    # The encoder output of ByteNet has 1.2 S positions, an integer for multiples of 5.
    scale = 5 if config.architecture is Architecture.bytenet else 1
    lengths = [(scale * source, scale * target) for source, target in _LENGTHS]
    sizes = [astuple(Processed.of([(1, *each)], 0, window))[:-1] for each in lengths]
    counts = [_count_forward(model, *each) for each in lengths]
    solution = np.linalg.solve(np.array(sizes, dtype=float), np.array(counts, dtype=float))
    with FlopCounterMode(display=False) as counter:
        model.project(torch.empty(1, config.width, device="meta"))
    return *(int(value) for value in np.rint(solution)), counter.get_total_flops()


@torch.no_grad()
def _count_forward(model: EncoderDecoder, source: int, target: int) -> int:
    """Count the FLOPs for one pair of these lengths, without the output projection."""
    source_ids, target_ids = (
        torch.zeros(1, length, dtype=torch.int64, device="meta") for length in (source, target)
    )
    # This backend computes attention by matrix products, which torch counts exactly.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(source_ids, source_ids.bool(), target_ids)
    return counter.get_total_flops()
