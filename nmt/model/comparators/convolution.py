"""Convolution over the positions of a sequence."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.cpu import Linear


class Convolution(nn.Module):
    """Convolution from D to D' with a kernel of k positions, which are `dilation` apart.

    y_t = W [x_1; …; x_k] + b: one matrix product over the k concatenated inputs at and near
    position t (Gehring et al. 2017, section 3.2). Positions outside of the sequence are zero.
    """

    def __init__(self, width: int, output_width: int, kernel_width: int, dilation: int = 1) -> None:
        super().__init__()
        self.linear = Linear(kernel_width * width, output_width)
        self.width = width
        self.kernel_width = kernel_width
        self.dilation = dilation
        self.num_past = (kernel_width - 1) * dilation

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Convolve, reading inputs before and after each position: (B, L, D) → (B, L, D').

        `mask` (B, L) is False where inputs count as zero.
        """
        before = self.num_past // 2
        real = inputs * mask[..., None]
        return self._convolve(F.pad(real, (0, 0, before, self.num_past - before)))

    def continued(self, inputs: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve the next T positions, each without the inputs after it (causal convolution).

        `past` (N, P, D) contains the P inputs before `inputs` (N, T, D); see `no_past`.

        Returns:
            Outputs (N, T, D'), and the last P inputs, which are `past` of the next call.
        """
        extended = torch.cat((past, inputs), dim=1)  # (N, P + T, D)
        return self._convolve(extended), extended[:, inputs.size(1) :]

    def no_past(self, like: Tensor) -> Tensor:
        """Return `past` (N, P, D) for the start of N sequences: zeros, with P = (k - 1) · dilation.

        The result has the data type and device of `like`, a tensor (N, …).
        """
        return like.new_zeros(len(like), self.num_past, self.width)

    def _convolve(self, extended: Tensor) -> Tensor:
        """Convolve without padding: (N, P + T, D) → (N, T, D')."""
        length = extended.size(1) - self.num_past
        starts = (index * self.dilation for index in range(self.kernel_width))
        windows = [extended[:, start : start + length] for start in starts]
        return self.linear(torch.cat(windows, dim=-1))
