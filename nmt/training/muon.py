"""Muon: momentum whose matrices are made orthogonal before they are followed.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the scale of the step
is that of Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2: its root mean square
is about that of a step of Adam, so that one learning rate serves both.

torch has `torch.optim.Muon`. It takes one matrix at a time, computes in bfloat16 on every CPU, and
does not know `found_inf`, by which a refused gradient changes nothing.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.linear import mkl_is_faster, product

# Of each iteration: the best polynomials of fifth order one after the other, for singular values
# from 0.001 to 1 (Amsel et al. 2025, "The Polar Express", section 3).
_COEFFICIENTS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
)
_SAFETY = 1.01  # every polynomial grows fast above the interval that it is made for
_ROOT_MEAN_SQUARE = 0.2
# Of matrices that are moved together: what a step takes in memory for a moment is ten times that,
# 170 MB on a CPU. GPUs have more, and want large products.
_MOST_NUMBERS = {"cpu": 2**22, "cuda": 2**24}


class Muon(torch.optim.AdamW):
    """Muon for the matrices of a model's layers, AdamW for embeddings, biases and norms.

    Args:
        hidden: weights (out, in) of linear layers inside the model.
        others: embeddings and output weights.
        vectors: weights without decay: biases, norms.
        momentum: decay of Muon's momentum.
        weight_decay: decoupled, times the learning rate an update; not for vectors.
        betas: of AdamW.
        eps: of AdamW.
    """

    def __init__(
        self,
        hidden: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        vectors: Iterable[nn.Parameter],
        *,
        momentum: float,
        weight_decay: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        super().__init__(
            [
                {"params": list(hidden), "momentum": momentum, "weight_decay": weight_decay},
                {"params": list(others), "weight_decay": weight_decay},
                {"params": list(vectors), "weight_decay": 0.0},
            ],
            lr=0.0,
            betas=betas,
            eps=eps,
            fused=True,
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step; where the attribute `found_inf` is not 0, nothing changes.

        Gradients of `hidden` are None afterwards.
        """
        assert closure is None
        is_refused = getattr(self, "found_inf", None)
        group = self.param_groups[0]
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                by_shape.setdefault(parameter.shape, []).append(parameter)
        for shape, parameters in by_shape.items():
            count = max(1, _MOST_NUMBERS[parameters[0].device.type] // shape.numel())
            for first in range(0, len(parameters), count):
                self._follow(parameters[first : first + count], group, is_refused)
        super().step()

    def _follow(
        self, parameters: list[nn.Parameter], group: dict[str, Any], is_refused: Tensor | None
    ) -> None:
        """Move matrices of one shape, together: one small product would not fill a GPU."""
        gradients = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        momenta = torch.stack([self._momentum(parameter) for parameter in parameters])
        moved = momenta.lerp(gradients, 1 - group["momentum"])
        rows, columns = parameters[0].shape
        precision = torch.float32 if gradients.device.type == "cpu" else torch.bfloat16
        steps = orthogonal(gradients.lerp(moved, group["momentum"]), precision)
        steps *= group["lr"] * _ROOT_MEAN_SQUARE * math.sqrt(max(rows, columns))
        keep: Tensor | float = 1 - group["lr"] * group["weight_decay"]
        if is_refused is not None:
            refused = is_refused.bool()
            moved = torch.where(refused, momenta, moved)
            # Not a product with zero: what is no number would stay none.
            steps = torch.where(refused, 0.0, steps)
            keep = torch.where(refused, 1.0, keep)
        for parameter, step, momentum in zip(parameters, steps, moved, strict=True):
            parameter.mul_(keep).sub_(step)
            self.state[parameter]["momentum"].copy_(momentum)
            parameter.grad = None  # AdamW passes over it

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if not state:
            # AdamW looks for a count of steps in every state that it loads.
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["momentum"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum"]
        return momentum


def orthogonal(matrices: Tensor, precision: torch.dtype) -> Tensor:
    """(N, A, B) → (N, A, B), nearly U V^T of each matrix's U S V^T.

    Newton-Schulz iteration of fifth order: all that is asked is that most singular values come near
    1. So bfloat16 will do, where it is fast; it rounds by up to a 256th, and each polynomial's
    values are then kept inside the interval of the next one.
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    norms = torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    x = (x / (norms * _SAFETY)).to(precision).contiguous()
    room = 1.0 if precision is torch.float32 else _SAFETY
    for a, b, c in ((a / room, b / room**3, c / room**5) for a, b, c in _COEFFICIENTS):
        gram = _products(x, x)
        polynomial = b * gram + c * _products(gram, gram)  # the gram matrix is its own transpose
        x = a * x + _products(polynomial, x.mT.contiguous())
    x = x.to(matrices.dtype)
    return x.mT if is_tall else x


def _products(left: Tensor, right: Tensor) -> Tensor:
    """(N, A, K) and (N, B, K) → (N, A, B), each left one times the right one transposed."""
    # MKL shares a batch of small products among threads, as GPUs do; oneDNN gets one by one.
    if left.device.type != "cpu" or mkl_is_faster():
        return left @ right.mT
    return torch.stack([product(*pair) for pair in zip(left, right, strict=True)])


def step_flops(config: ModelConfig) -> int:
    """Floating-point operations of a step's matrix products, for a model of these sizes."""
    width, inner = config.width, config.feed_forward_width
    keys = config.num_heads * config.head_key_width
    values = config.num_heads * config.head_value_width
    attention = 2 * _flops(keys, width) + 2 * _flops(values, width)
    feed_forward = 2 * _flops(inner, width)
    encoder = config.num_encoder_layers * (attention + feed_forward)
    return encoder + config.num_decoder_layers * (2 * attention + feed_forward)


def _flops(rows: int, columns: int) -> int:
    """Of `orthogonal` for one matrix."""
    short, long = sorted((rows, columns))
    return len(_COEFFICIENTS) * 2 * short**2 * (2 * long + short)
