"""Which gradients are not to be followed."""

import torch
from torch import Tensor

# Norms seen before one of them can be called unusual.
_NORMS_BEFORE_SPIKES = 100


class GradientGuard:
    """Tells a gradient that is no number, or far larger than usual, from the others.

    It stays on the device: nobody waits for the verdict, the fused optimizer takes it as a tensor.
    A loss that is no number needs no look of its own: it comes from logits that are none, and so do
    gradients then.

    Args:
        max_spike: a norm above so many times the running mean is a spike; 0 means never.
        mean_norm: the running mean so far.
        num_norms: norms in it so far.
        device: where gradients are.
    """

    def __init__(
        self, max_spike: float, mean_norm: float, num_norms: int, device: torch.device
    ) -> None:
        self._max_spike = max_spike
        self.mean_norm = torch.tensor(mean_norm, dtype=torch.float32, device=device)
        self.num_norms = torch.tensor(num_norms, dtype=torch.int64, device=device)

    def refuses(self, norm: Tensor) -> Tensor:
        """Whether a step along a gradient of this norm must not be taken, a boolean scalar.

        The mean goes over the steps that are taken: plainly over the first hundred, with a weight
        of one hundredth after them.
        """
        is_refused = ~torch.isfinite(norm)
        if self._max_spike:
            is_settled = self.num_norms >= _NORMS_BEFORE_SPIKES
            is_refused |= is_settled & (norm > self._max_spike * self.mean_norm)
        weight = 1.0 / (self.num_norms + 1).clamp(max=_NORMS_BEFORE_SPIKES)
        moved = self.mean_norm + weight * (norm - self.mean_norm)
        self.mean_norm = torch.where(is_refused, self.mean_norm, moved)
        self.num_norms = self.num_norms + (~is_refused)
        return is_refused
