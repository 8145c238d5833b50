"""The training objective: label-smoothed cross-entropy, summed over target tokens."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.data.batch import Batch
from nmt.model.linear import product, suits_onednn, with_spare_rows
from nmt.model.transformer import Transformer

# Most rows projected at a time: on CPUs their logits stay near the cache.
_CHUNK = 512


class SummedLoss(nn.Module):
    """A micro-batch's loss.

    The loss of a token is the cross-entropy with (1 - eps) on the right token and eps spread evenly
    over all V (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4). It is a sum: who
    calls divides by the target tokens of the whole update.
    """

    def __init__(self, transformer: Transformer, label_smoothing: float) -> None:
        super().__init__()
        self.transformer = transformer
        self.label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> Tensor:
        """The summed loss in nats, a scalar."""
        hidden = self.transformer(batch.source, batch.source_mask, batch.target_input)
        # Only real positions are projected: V columns for padding would be the dearest padding.
        real = hidden[batch.target_mask]  # (tokens, D)
        tokens = batch.target_output[batch.target_mask]  # (tokens,)
        weight = self.transformer.output_weight
        return smoothed_cross_entropy(real, weight, tokens, self.label_smoothing)


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
    """Label-smoothed cross-entropy of a linear projection, summed over tokens.

    All (tokens, V) logits are never held: it goes by chunks of tokens, and makes the gradient of a
    chunk while its logits are near. With logits z = W h the smoothed loss, -(1 - eps) log p(y)
    - eps / V * sum_v log p(v), is the plain one plus eps * (z_y - mean_v z_v), and that mean is the
    product of h with the mean row of W.

    Args:
        hidden: (tokens, D).
        weight: (V, D).
        tokens: (tokens,) the right ids.
        eps: share of the probability spread evenly over V.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        logits = F.linear(hidden, weight).float()  # (tokens, V)
        return F.cross_entropy(logits, tokens, reduction="sum", label_smoothing=eps)
    loss: Tensor = _SmoothedCrossEntropy.apply(hidden, weight, tokens, eps)  # type: ignore[no-untyped-call]
    return loss


class _SmoothedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
        needs_gradient = any(context.needs_input_grad)
        mean_row = weight.mean(dim=0)  # (D,)
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        loss = -eps * (hidden @ mean_row).sum()
        # Equal ones: a short last one would be of any size, and that costs (see `with_spare_rows`).
        chunk = math.ceil(len(hidden) / math.ceil(len(hidden) / _CHUNK)) if len(hidden) else 1
        for first in range(0, len(hidden), chunk):
            right = tokens[first : first + chunk, None]  # (chunk, 1)
            some = hidden[first : first + chunk]
            if suits_onednn(some):
                some = with_spare_rows(some)  # (chunk', D)
            logits = product(some, weight)  # (chunk', V)
            logs = logits.log_softmax(dim=1)
            # log Z is z_y - log p(y).
            loss += (eps * logits.gather(1, right) - logs.gather(1, right)).sum()
            if needs_gradient:
                of_logits = logs.exp_()
                of_logits.scatter_add_(1, right, of_logits.new_full(right.shape, eps - 1.0))
                of_logits[len(right) :] = 0.0
                of_hidden[first : first + chunk] = product(of_logits, weight.t())[: len(right)]
                of_weight += product(of_logits.t(), some.t())
        if needs_gradient:
            # What every logit has in common.
            of_hidden -= eps * mean_row
            of_weight -= eps / len(weight) * hidden.sum(dim=0)
            context.save_for_backward(of_hidden, of_weight)
        return loss

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        of_hidden, of_weight = context.saved_tensors
        return of_hidden * gradients[0], of_weight * gradients[0], None, None


@dataclass(frozen=True)
class TokenLoss:
    """Cross-entropy without smoothing over a set of pairs.

    Attributes:
        total: sum in nats.
        num_tokens: target tokens, EOS counted.
    """

    total: float
    num_tokens: int

    @property
    def mean(self) -> float:
        """Nats a token; its exponential is the perplexity."""
        return self.total / max(1, self.num_tokens)


@torch.inference_mode()
def token_loss(transformer: Transformer, batches: list[Batch]) -> TokenLoss:
    """Cross-entropy of the model on `batches`, without dropout and smoothing."""
    was_training = transformer.training
    transformer.eval()
    objective = SummedLoss(transformer, label_smoothing=0.0)
    device = transformer.output_weight.device
    total = sum(float(objective(batch.to(device))) for batch in batches)
    transformer.train(was_training)
    return TokenLoss(total, sum(batch.num_target_tokens for batch in batches))
