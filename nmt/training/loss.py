"""Training objective: label-smoothed cross-entropy, summed over target tokens.

With experts, the loss that balances them is added, which is also a sum over tokens.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.data.batch import Batch
from nmt.model import cpu
from nmt.model.comparators.experts import balance_loss, recorded_routing
from nmt.model.encoder_decoder import EncoderDecoder

# Maximum number of tokens whose logits are in memory at a time.
_TOKENS_PER_CHUNK = 4096


class SummedLoss(nn.Module):
    """Loss of a micro-batch, summed over its target tokens.

    The caller divides by the number of target tokens of the whole update.
    """

    def __init__(
        self, network: EncoderDecoder, label_smoothing: float, balance_weight: float = 0.0
    ) -> None:
        super().__init__()
        self.network = network
        self.label_smoothing = label_smoothing
        self.balance_weight = balance_weight

    def forward(self, batch: Batch) -> Tensor:
        """Return the summed loss in nats, a scalar."""
        with recorded_routing(self.network) as routing:
            hidden = self.network(batch.source, batch.source_mask, batch.target_input)
        # Padding is left out before the projection to V logits.
        real = hidden.flatten(0, 1).index_select(0, batch.target_indices)  # (N, D)
        tokens = batch.target_output.flatten()[batch.target_indices]  # (N,)
        weight, bias = self.network.output_weight, self.network.output_bias
        if bias is not None:  # W h + b is the product of [W b] and [h 1]
            weight = torch.cat((weight, bias[:, None]), dim=1)  # (V, D + 1)
            real = F.pad(real, (0, 1), value=1.0)  # (N, D + 1)
        loss = smoothed_cross_entropy(real, weight, tokens, self.label_smoothing)
        for path, probabilities in routing.items():
            mask = batch.source_mask if path.startswith("encoder.") else batch.target_mask
            loss = loss + self.balance_weight * balance_loss(probabilities, mask)
        return loss


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
    """Compute the label-smoothed cross-entropy in nats, summed over the target `tokens` (N,).

    The logits are the projection of `hidden` (N, D) by `weight` (V, D). The target distribution has
    1 - eps on the target token and eps spread evenly over all V (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4).

    Only a chunk of the logits (N, V) is in memory at a time. The forward pass also computes the
    gradients of a chunk, so no logits are computed twice.
    """
    loss: Tensor = _SmoothedCrossEntropy.apply(hidden, weight, tokens, eps)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
        compute = cpu.smoothed_cross_entropy if cpu.use_cpu_operators(hidden) else _in_chunks
        loss, *gradients = compute(hidden, weight, tokens, eps, context.needs_input_grad[1])
        context.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        for_hidden, for_weight = context.saved_tensors
        scaled = None if for_weight is None else for_weight * gradient
        return for_hidden * gradient, scaled, None, None


def _in_chunks(
    hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, is_weight_trained: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the summed loss and its gradients for `hidden` and `weight`, chunk by chunk."""
    device = hidden.device
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    loss = torch.zeros((), dtype=dtype, device=device)
    grad_hidden = torch.empty_like(hidden)
    grad_weight = torch.zeros_like(weight) if is_weight_trained else None
    hidden, weight = hidden.detach(), weight.detach()
    if torch.is_autocast_enabled(device.type):
        # Otherwise autocast would cache a copy of this weight, besides that of the parameter.
        weight = weight.to(torch.get_autocast_dtype(device.type))
    weight.requires_grad_(is_weight_trained)
    for first in range(0, len(tokens), _TOKENS_PER_CHUNK):
        chunk = slice(first, first + _TOKENS_PER_CHUNK)
        rows = hidden[chunk].requires_grad_()
        with torch.enable_grad():
            logits = F.linear(rows, weight).to(dtype)  # (n, V)
            partial = F.cross_entropy(logits, tokens[chunk], reduction="sum", label_smoothing=eps)
        inputs = (rows, weight) if is_weight_trained else (rows,)
        grad_hidden[chunk], *of_weight = torch.autograd.grad(partial, inputs)
        if grad_weight is not None:
            grad_weight += of_weight[0]
        loss += partial.detach()
    return loss, grad_hidden, grad_weight
