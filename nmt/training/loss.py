"""Training objective: label-smoothed cross-entropy, summed over target tokens.

With experts, the loss that balances them is added, which is also a sum over tokens.
"""

from collections.abc import Callable
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
# The same where the loss is compiled, which then stores no logits in float32.
_TOKENS_PER_COMPILED_CHUNK = 16_384
_PADDING = -1  # in place of a target token: it has no loss

Gradients = tuple[Tensor, Tensor, Tensor | None]
"""A summed loss, and its gradients for hidden states and output weight (None if not trained)."""

ChunkGradients = Callable[[Tensor, Tensor, Tensor, float, bool], Gradients]
"""A function with the arguments of `chunk_gradients`."""


class SummedLoss(nn.Module):
    """Loss of a micro-batch, summed over its target tokens.

    The caller divides by the number of target tokens of the whole update.

    Args:
        network: the model.
        label_smoothing: the paper's epsilon_ls.
        balance_weight: weight of the loss that balances experts.
        of_chunk: a compiled version of `chunk_gradients`; padding is then projected too, so that
            all operations have fixed shapes.
    """

    def __init__(
        self,
        network: EncoderDecoder,
        label_smoothing: float,
        balance_weight: float = 0.0,
        of_chunk: ChunkGradients | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.label_smoothing = label_smoothing
        self.balance_weight = balance_weight
        self.of_chunk = of_chunk

    def forward(self, batch: Batch) -> Tensor:
        """Return the summed loss in nats, a scalar."""
        with recorded_routing(self.network) as routing:
            packed = () if batch.segments is None else (batch.segments,)
            hidden = self.network(batch.source, batch.source_mask, batch.target_input, *packed)
        hidden, tokens = hidden.flatten(0, 1), batch.target_output.flatten()
        if self.of_chunk is not None:
            tokens = tokens.masked_fill(~batch.target_mask.flatten(), _PADDING)
        else:  # padding is left out before the projection to V logits
            hidden = hidden.index_select(0, batch.target_indices)  # (N, D)
            tokens = tokens[batch.target_indices]  # (N,)
        weight, bias = self.network.output_weight, self.network.output_bias
        if bias is not None:  # W h + b is the product of [W b] and [h 1]
            weight = torch.cat((weight, bias[:, None]), dim=1)  # (V, D + 1)
            hidden = F.pad(hidden, (0, 1), value=1.0)  # (N, D + 1)
        loss = smoothed_cross_entropy(hidden, weight, tokens, self.label_smoothing, self.of_chunk)
        for path, probabilities in routing.items():
            is_source = path.startswith("encoder.")
            mask = batch.source_mask if is_source else batch.target_mask
            segments = None
            if batch.segments is not None:
                segments = batch.segments.source if is_source else batch.segments.target
            loss = loss + self.balance_weight * balance_loss(probabilities, mask, segments)
        return loss


def chunk_gradients(
    hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, is_weight_trained: bool
) -> Gradients:
    """Compute the loss of `smoothed_cross_entropy` and its gradients, without autograd."""
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    logits = F.linear(hidden, weight).to(dtype)  # (n, V)
    log_total = logits.logsumexp(dim=1, keepdim=True)  # (n, 1)
    is_token = (tokens >= 0)[:, None]
    correct = logits.gather(1, tokens.clamp(min=0)[:, None])
    losses = log_total - (1 - eps) * correct - eps * logits.mean(dim=1, keepdim=True)
    loss = losses.where(is_token, 0.0).sum()
    is_correct = tokens[:, None] == torch.arange(len(weight), device=tokens.device)
    gradient = (logits - log_total).exp() - (1 - eps) * is_correct.to(dtype) - eps / len(weight)
    gradient = gradient.where(is_token, 0.0).to(hidden.dtype)
    return loss, gradient @ weight, gradient.t() @ hidden if is_weight_trained else None


def smoothed_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    eps: float,
    of_chunk: ChunkGradients | None = None,
) -> Tensor:
    """Compute the label-smoothed cross-entropy in nats, summed over the target `tokens` (N,).

    The logits are the projection of `hidden` (N, D) by `weight` (V, D). The target distribution has
    1 - eps on the target token and eps spread evenly over all V (Szegedy et al. 2016, section 7;
    Vaswani et al. 2017, section 5.4). Negative tokens are padding, without a loss; they need
    `of_chunk`, a compiled version of `chunk_gradients`.

    Only a chunk of the logits (N, V) is in memory at a time. The forward pass also computes the
    gradients of a chunk, so no logits are computed twice.
    """
    loss: Tensor = _SmoothedCrossEntropy.apply(hidden, weight, tokens, eps, of_chunk)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        hidden: Tensor,
        weight: Tensor,
        tokens: Tensor,
        eps: float,
        of_chunk: ChunkGradients | None,
    ) -> Tensor:
        is_weight_trained = context.needs_input_grad[1]
        if of_chunk is None and cpu.use_cpu_operators(hidden):
            made = cpu.smoothed_cross_entropy(hidden, weight, tokens, eps, is_weight_trained)
        else:
            of_chunk = of_chunk or chunk_gradients
            made = _in_chunks(hidden, weight, tokens, eps, is_weight_trained, of_chunk)
        loss, *gradients = made
        context.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        for_hidden, for_weight = context.saved_tensors
        scaled = None if for_weight is None else for_weight * gradient
        return for_hidden * gradient, scaled, None, None, None


def _in_chunks(
    hidden: Tensor,
    weight: Tensor,
    tokens: Tensor,
    eps: float,
    is_weight_trained: bool,
    of_chunk: ChunkGradients,
) -> Gradients:
    """Compute the summed loss and its gradients for `hidden` and `weight`, chunk by chunk."""
    device = hidden.device
    loss = torch.zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32), device=device)
    grad_hidden = torch.empty_like(hidden)
    grad_weight = torch.zeros_like(weight) if is_weight_trained else None
    hidden, weight = hidden.detach(), weight.detach()
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
    most = _TOKENS_PER_CHUNK if of_chunk is chunk_gradients else _TOKENS_PER_COMPILED_CHUNK
    size = _chunk_size(len(tokens), most)
    with torch.autocast(device.type, enabled=False):
        for first in range(0, len(tokens), size):
            chunk = slice(first, first + size)
            partial, grad_hidden[chunk], of_weight = of_chunk(
                hidden[chunk], weight, tokens[chunk], eps, is_weight_trained
            )
            loss += partial
            if grad_weight is not None and of_weight is not None:
                grad_weight += of_weight
    return loss, grad_hidden, grad_weight


def _chunk_size(number: int, most: int) -> int:
    """Return the number of tokens of a chunk; if possible, all chunks have the same size."""
    least = max(1, -(-number // most))
    even = (count for count in range(least, 2 * least) if number % count == 0)
    return max(1, -(-number // next(even, least)))
