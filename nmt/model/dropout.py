"""Dropout (Srivastava et al. 2014; Vaswani et al. 2017, section 5.4), made cheap on CPUs.

There torch draws a mask by one thread and a Bernoulli trial a number, in six nanoseconds each: a
tenth of a training step. Sixteen random bits a number, compared with a threshold, take a sixth of
that. The rate is met to 1/65,536, and values are scaled by the rate met: expectations are exact.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16
_threshold_backward = torch.ops.aten.threshold_backward


class Dropout(nn.Module):
    """Zeroes each number with probability `rate` in training, and scales the others up.

    Chance comes from torch's generator: `torch.manual_seed` fixes the masks.

    Args:
        rate: from 0 to below 1.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, hidden: Tensor) -> Tensor:
        """The same shape."""
        if not self.training or not self.rate:
            return hidden
        if not _is_cheap(hidden):
            return F.dropout(hidden, self.rate)
        dropped: Tensor = _Dropout.apply(hidden, self.rate)  # type: ignore[no-untyped-call]
        return dropped

    def after_relu(self, hidden: Tensor) -> Tensor:
        """Dropout of max(0, hidden), in one pass."""
        if not self.training or not self.rate or not _is_cheap(hidden):
            return self(F.relu(hidden))
        dropped: Tensor = _DropoutAfterRelu.apply(hidden, self.rate)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"rate={self.rate}"


def _is_cheap(hidden: Tensor) -> bool:
    # Compilers do not see that a draw of numpy's is another one each time.
    is_compiling = torch.compiler.is_compiling()
    return hidden.device.type == "cpu" and hidden.dtype is torch.float32 and not is_compiling


def _level(rate: float) -> int:
    """How many of the levels are dropped; at least one is kept."""
    return min(round(rate * _LEVELS), _LEVELS - 1)


def _random_levels(like: Tensor) -> Tensor:
    """Independent levels from 0 to 65,535, less 32,768, in the shape of `like`, 16 bits each."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-like.numel() // 4))
    return torch.from_numpy(words.view(np.int16)[: like.numel()]).view(like.shape)


def _kept(values: Tensor, levels: Tensor, rate: float) -> Tensor:
    """Values over the rate kept where the level is not dropped, else zero.

    Written as the backward of a threshold, which is one pass: v where the level is above it.
    """
    level = _level(rate)
    room = levels.to(values.dtype)  # what is kept takes its place: new memory costs more than sums
    kept: Tensor = _threshold_backward.grad_input(
        values, room, level - _LEVELS // 2 - 1, grad_input=room
    )
    return kept.mul_(_LEVELS / (_LEVELS - level))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, rate: float) -> Tensor:
        levels = _random_levels(hidden)
        context.save_for_backward(levels)
        context.rate = rate
        return _kept(hidden, levels, rate)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (levels,) = context.saved_tensors
        return _kept(gradients[0], levels, context.rate), None


class _DropoutAfterRelu(torch.autograd.Function):
    """What is not positive afterwards was dropped or cut off, so no mask needs to be kept."""

    @staticmethod
    def forward(context: Any, hidden: Tensor, rate: float) -> Tensor:
        dropped = _kept(hidden, _random_levels(hidden), rate).relu_()
        context.save_for_backward(dropped)
        context.scale = _LEVELS / (_LEVELS - _level(rate))
        return dropped

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (dropped,) = context.saved_tensors
        gradient: Tensor = _threshold_backward(gradients[0], dropped, 0.0)
        return gradient.mul_(context.scale), None
