"""Muon optimizer: momentum whose matrices are orthogonalized before each step.

Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks". The step size is that
of Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2: its root mean square is about
that of Adam's steps, so that the same learning rate fits both optimizers.

`torch.optim.Muon` takes one matrix at a time, always computes in bfloat16, and does not
support `found_inf`, by which an update is skipped without waiting for the device.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nmt.model.cpu import batched_product

# Coefficients of the polynomial of degree five of each iteration. Together they are the best
# sequence for singular values from 0.001 to 1 (Amsel et al. 2025, "The Polar Express", section 3).
_COEFFICIENTS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196673706015, -2.488488024314874, 0.51004894012372),
)
_SAFETY = 1.01  # margin, because each polynomial grows fast above the interval that it is for
_ROOT_MEAN_SQUARE = 0.2
# Maximum number of elements of the matrices that are orthogonalized together, which takes temporary
# memory for ten times as many. GPUs are fast only with large products, so their number is larger.
_MAX_ELEMENTS = {"cpu": 2**22, "cuda": 2**24}


class Muon(torch.optim.AdamW):
    """Muon for the parameters of the first group, AdamW for all others.

    The first group holds weights (out, in) of linear layers inside the model. Its key `momentum` is
    the decay rate of Muon's momentum.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Perform one optimizer step; skip it if the attribute `found_inf` is 1.

        The gradients of the first group are None afterwards.
        """
        assert closure is None
        found_inf = getattr(self, "found_inf", None)
        group = self.param_groups[0]
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            if not self.state[parameter]:
                # `AdamW.load_state_dict` needs the key `step`.
                step, momentum = torch.zeros((), dtype=torch.float32), torch.zeros_like(parameter)
                self.state[parameter] = {"step": step, "momentum": momentum}
            by_shape.setdefault(parameter.shape, []).append(parameter)
        for shape, parameters in by_shape.items():
            count = max(1, _MAX_ELEMENTS[parameters[0].device.type] // shape.numel())
            for first in range(0, len(parameters), count):
                self._step_together(parameters[first : first + count], group, found_inf)
        super().step()

    def _step_together(
        self, parameters: list[Tensor], group: dict[str, Any], found_inf: Tensor | None
    ) -> None:
        """Update matrices of one shape in one batch: a single small product cannot fill a GPU."""
        gradients = torch.stack([parameter.grad for parameter in parameters])  # type: ignore[misc]
        old = torch.stack([self.state[parameter]["momentum"] for parameter in parameters])
        new = old.lerp(gradients, 1 - group["momentum"])
        rows, columns = parameters[0].shape
        dtype = torch.float32 if gradients.device.type == "cpu" else torch.bfloat16
        steps = orthogonal(gradients.lerp(new, group["momentum"]), dtype)  # Nesterov momentum
        steps *= group["lr"] * _ROOT_MEAN_SQUARE * math.sqrt(max(rows, columns))
        decay: Tensor | float = 1 - group["lr"] * group["weight_decay"]
        if found_inf is not None:
            is_skipped = found_inf.bool()
            new = torch.where(is_skipped, old, new)
            # Not a product with zero, which would keep NaN.
            steps = torch.where(is_skipped, 0.0, steps)
            decay = torch.where(is_skipped, 1.0, decay)
        for parameter, step, momentum in zip(parameters, steps, new, strict=True):
            parameter.mul_(decay).sub_(step)
            self.state[parameter]["momentum"].copy_(momentum)
            parameter.grad = None  # AdamW ignores parameters without a gradient


def orthogonal(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Orthogonalize matrices approximately: U S V^T becomes nearly U V^T.

    A Newton-Schulz iteration of degree five brings most singular values near 1, which is enough.
    Rounding errors of bfloat16 are up to 1/256. In spite of them, a margin keeps the values of each
    polynomial inside the interval of the next one.
    """
    # N matrices (A, B)
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    norms = torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    x = (x / (norms * _SAFETY)).to(dtype).contiguous()
    margin = 1.0 if dtype is torch.float32 else _SAFETY
    for a, b, c in ((a / margin, b / margin**3, c / margin**5) for a, b, c in _COEFFICIENTS):
        gram = batched_product(x, x)
        polynomial = b * gram + c * batched_product(gram, gram)  # the Gram matrix is symmetric
        x = a * x + batched_product(polynomial, x.mT.contiguous())
    x = x.to(matrices.dtype)
    return x.mT if is_tall else x


def orthogonal_flops(rows: int, columns: int) -> int:
    """Return the FLOPs of `orthogonal` for one matrix."""
    short, long = sorted((rows, columns))
    return len(_COEFFICIENTS) * 2 * short**2 * (2 * long + short)
