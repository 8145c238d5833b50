"""The training objective: label-smoothed cross-entropy, summed over target tokens, and R-Drop."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.data.batch import Batch
from nmt.model.linear import add_product, product, product_in, suits_onednn, with_spare_rows
from nmt.model.transformer import Transformer

# Most rows projected at a time: on CPUs their logits stay near the cache.
_CHUNK = 512


class SummedLoss(nn.Module):
    """A micro-batch's loss.

    The loss of a token is the cross-entropy with (1 - eps) on the right token and eps spread evenly
    over all V (Szegedy et al. 2016, section 7; Vaswani et al. 2017, section 5.4). It is a sum: who
    calls divides by the target tokens of the whole update.

    With R-Drop (Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks, section 2) the
    batch goes through the model twice, each time under dropout of its own, and the loss is half of
    theirs: the mean of the two cross-entropies and alpha / 2 times the mean of the divergences of
    either distribution from the other.

    Args:
        transformer: the model.
        label_smoothing: eps.
        r_drop: alpha; 0 goes through the model once.
    """

    def __init__(
        self, transformer: Transformer, label_smoothing: float, r_drop: float = 0.0
    ) -> None:
        super().__init__()
        self.transformer = transformer
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop

    def forward(self, batch: Batch) -> Tensor:
        """The summed loss in nats, a scalar."""
        real = self._real_positions(batch)  # (tokens, D)
        tokens = batch.target_output.flatten()[batch.target_places]  # (tokens,)
        weight, eps = self.transformer.output_weight, self.label_smoothing
        if not self.r_drop:
            return smoothed_cross_entropy(real, weight, tokens, eps)
        both = torch.stack([real, self._real_positions(batch)])  # (2, tokens, D)
        return r_drop_loss(both, weight, tokens, eps, self.r_drop)

    def _real_positions(self, batch: Batch) -> Tensor:
        """(tokens, D): padding is not projected, as V columns would be the dearest padding."""
        hidden = self.transformer(batch.source, batch.source_mask, batch.target_input)
        real: Tensor = hidden.flatten(0, 1).index_select(0, batch.target_places)
        return real


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


def _rows_to_project(hidden: Tensor) -> Tensor:
    """(chunk, D) → (chunk', D), with zeros below where products are by oneDNN."""
    return with_spare_rows(hidden) if suits_onednn(hidden) else hidden


def _chunks(number: int) -> list[slice]:
    """Tokens by chunks of one size: a last one of any size would cost (see `with_spare_rows`)."""
    if not number:
        return []
    size = math.ceil(number / math.ceil(number / _CHUNK))
    return [slice(first, first + size) for first in range(0, number, size)]


class _GradientsAtHand(torch.autograd.Function):
    """A sum of (…, tokens, D) hidden, (V, D) weight and more, whose gradients forward has made."""

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_hidden, of_weight = context.saved_tensors
        others = (None,) * (len(context.needs_input_grad) - 2)
        return of_hidden * gradients[0], of_weight * gradients[0], *others


class _SmoothedCrossEntropy(_GradientsAtHand):
    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
        needs_gradient = any(context.needs_input_grad)
        mean_row = weight.mean(dim=0)  # (D,)
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        loss = -eps * (hidden @ mean_row).sum()
        room = hidden.new_empty(0)
        for chunk in _chunks(len(tokens)):
            right = tokens[chunk, None]  # (chunk, 1)
            number = len(right)
            some = _rows_to_project(hidden[chunk])  # (chunk', D)
            if len(room) < len(some) and not suits_onednn(some):
                room = hidden.new_empty(len(some), len(weight))
            logits = product_in(room[: len(some)], some, weight)  # (chunk', V)
            of_right = logits.gather(1, right)
            # The softmax is never divided by its sum: what is multiplied with it is much smaller.
            largest = logits.amax(dim=1, keepdim=True)  # (chunk', 1)
            powers = logits.sub_(largest).exp_()
            total = powers.sum(dim=1, keepdim=True)
            log_total = (largest + total.log())[:number]
            loss += (log_total - (1.0 - eps) * of_right).sum()
            if needs_gradient:
                powers.scatter_add_(1, right, (eps - 1.0) * total[:number])
                powers[number:] = 0.0
                of_hidden[chunk] = product(powers, weight.t())[:number] / total[:number]
                add_product(of_weight, powers.t(), (some / total).t())
        if needs_gradient:
            # What every logit has in common.
            of_hidden -= eps * mean_row
            of_weight -= eps / len(weight) * hidden.sum(dim=0)
            context.save_for_backward(of_hidden, of_weight)
        return loss


def r_drop_loss(hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, alpha: float) -> Tensor:
    """The mean of two label-smoothed cross-entropies, and their divergence, summed over tokens.

    To the mean it adds alpha / 4 * (KL(p || q) + KL(q || p)), with p and q the distributions that
    the two projections give (Liang et al. 2021, section 2, halved).

    Args:
        hidden: (2, tokens, D).
        weight: (V, D).
        tokens: (tokens,) the right ids.
        eps: share of the probability spread evenly over V.
        alpha: weight of the divergence.
    """
    if torch.is_autocast_enabled(hidden.device.type):
        logs = F.linear(hidden, weight).float().log_softmax(dim=2)  # (2, tokens, V)
        right = logs.gather(2, tokens.expand(2, -1)[:, :, None]).sum()
        entropies = -(1 - eps) * right - eps / len(weight) * logs.sum()
        apart = ((logs[0].exp() - logs[1].exp()) * (logs[0] - logs[1])).sum()
        return entropies / 2 + alpha / 4 * apart
    loss: Tensor = _RDropLoss.apply(hidden, weight, tokens, eps, alpha)  # type: ignore[no-untyped-call]
    return loss


class _RDropLoss(_GradientsAtHand):
    """As `_SmoothedCrossEntropy`, by chunks of tokens.

    With d = log p - log q, KL(p || q) + KL(q || p) is sum_v (p - q) d; its gradient for the logits
    of p is p (d - KL(p || q)) + p - q, and likewise for those of q.
    """

    @staticmethod
    def forward(
        context: Any, hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, alpha: float
    ) -> Tensor:
        needs_gradient = any(context.needs_input_grad)
        mean_row = weight.mean(dim=0)  # (D,)
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        loss = -eps / 2 * (hidden @ mean_row).sum()
        share = alpha / 4
        for chunk in _chunks(len(tokens)):
            right = tokens[chunk, None]  # (chunk, 1)
            some = [_rows_to_project(rows[chunk]) for rows in hidden]
            logs = []
            for rows in some:
                logits = product(rows, weight)  # (chunk', V)
                logs.append(logits.log_softmax(dim=1))
                loss += (eps * logits.gather(1, right) - logs[-1].gather(1, right)).sum() / 2
            apart = logs[0] - logs[1]
            p, q = logs[0].exp_(), logs[1].exp_()
            p_from_q = (p * apart).sum(dim=1, keepdim=True)  # (chunk', 1)
            q_from_p = -(q * apart).sum(dim=1, keepdim=True)
            # Spare rows are alike, and add nothing.
            loss += share * (p_from_q + q_from_p)[: len(right)].sum()
            if not needs_gradient:
                continue
            of_p = (apart - p_from_q).mul_(share).add_(share + 0.5).mul_(p).sub_(q, alpha=share)
            of_q = apart.add_(q_from_p).mul_(-share).add_(share + 0.5).mul_(q).sub_(p, alpha=share)
            for of_rows, of_logits, rows in zip(of_hidden, (of_p, of_q), some, strict=True):
                of_logits.scatter_add_(1, right, of_logits.new_full(right.shape, (eps - 1.0) / 2))
                of_logits[len(right) :] = 0.0
                of_rows[chunk] = product(of_logits, weight.t())[: len(right)]
                add_product(of_weight, of_logits.t(), rows.t())
            # Else they would be held beside those of the next chunk.
            del logits, logs, apart, p, q, of_p, of_q, of_logits
        if needs_gradient:
            of_hidden -= eps / 2 * mean_row
            of_weight -= eps / 2 / len(weight) * hidden.sum(dim=(0, 1))
            context.save_for_backward(of_hidden, of_weight)
        return loss


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
