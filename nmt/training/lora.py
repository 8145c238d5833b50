"""LoRA: training of low-rank changes of weight matrices (Hu et al. 2021).

The model keeps its ordinary weights W = W_0 + (alpha / rank) B A, and the optimizer owns A and B.
Validation, averages and the model folder therefore work as in any other training.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.config import OptimizerConfig


class LoRA(torch.optim.AdamW):
    """AdamW of A (rank, in; `down`) and B (out, rank; `up`) for each matrix W (out, in).

    The present values of the matrices become W_0; at the start, A is random and B is zero. The
    gradients of A and B are computed from the clipped gradient of W.
    """

    def __init__(self, matrices: Sequence[Tensor], config: OptimizerConfig, **options: Any) -> None:
        self._scale = config.lora_scale
        self._layers = []
        for matrix in matrices:
            rows, columns = matrix.shape
            # Drawn on the CPU, so that the values do not depend on the device.
            down = torch.empty(config.lora_rank, columns).uniform_(-1, 1) / columns**0.5
            up = matrix.new_zeros(rows, config.lora_rank)
            low_rank = down.to(matrix).requires_grad_(), up.requires_grad_()
            self._layers.append((matrix, matrix.detach().clone(), *low_rank))
        parameters = [one for _, _, down, up in self._layers for one in (down, up)]
        super().__init__(parameters, weight_decay=config.weight_decay, **options)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update A and B, unless the attribute `found_inf` is 1, and compute W from them."""
        assert closure is None
        for matrix, _, down, up in self._layers:
            assert matrix.grad is not None
            down.grad = self._scale * up.t() @ matrix.grad
            up.grad = self._scale * matrix.grad @ down.t()
        super().step()
        self._merge()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Remove the gradients of A, B and W."""
        super().zero_grad(set_to_none)
        for matrix, *_ in self._layers:
            matrix.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state of AdamW, and A and B of each matrix as `low_rank`."""
        low_rank = [[down.detach(), up.detach()] for _, _, down, up in self._layers]
        return {**super().state_dict(), "low_rank": low_rank}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a `state_dict`, and compute W from it.

        Raises:
            ValueError: the state is of other matrices or of another rank, or A or B is not finite.
        """
        super().load_state_dict(state_dict)
        for (_, _, *own), loaded in zip(self._layers, state_dict["low_rank"], strict=True):
            for parameter, value in zip(own, loaded, strict=True):
                shape, expected = tuple(value.shape), tuple(parameter.shape)
                if shape != expected:
                    raise ValueError(f"low_rank: shape {shape} instead of {expected}")
                if not value.isfinite().all():
                    raise ValueError("low_rank: NaN or infinity")
                parameter.copy_(value)
        self._merge()

    def _merge(self) -> None:
        for matrix, initial, down, up in self._layers:
            matrix.copy_(torch.addmm(initial, up, down, alpha=self._scale))
