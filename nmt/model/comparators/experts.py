"""Feed-forward sublayer of several experts, of which a router selects two for each token.

Sparsely-gated mixture of experts (Shazeer et al. 2017), with the two best experts of a token as in
GShard (Lepikhin et al. 2021). An expert has no capacity limit, so the output for a token depends on
that token only.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from nmt.model.cpu import Linear

NUM_SELECTED = 2


class Router(nn.Module):
    """Probabilities of the X experts: softmax(x W_r + b_r).

    Autocast does not apply, because training in lower precision is less stable (Fedus et al. 2022,
    section 2.4). The result is float32 at least.
    """

    def __init__(self, width: int, num_experts: int) -> None:
        super().__init__()
        self.linear = Linear(width, num_experts)

    def forward(self, hidden: Tensor) -> Tensor:
        """Compute the probabilities: (…, D) → (…, X)."""
        with torch.autocast("cuda" if hidden.is_cuda else "cpu", enabled=False):
            logits = self.linear(hidden)
        return logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


class Experts(nn.Module):
    """Weighted sum of the outputs of the two experts with the highest probabilities.

    The weights are these probabilities, divided by their sum (Lepikhin et al. 2021, section 2.2).
    The experts are X modules of one size, each (N, D) → (N, D).
    """

    def __init__(self, width: int, experts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.router = Router(width, len(experts))
        self.experts = nn.ModuleList(experts)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the experts: (…, D) → (…, D)."""
        rows = hidden.flatten(0, -2)  # (N, D)
        weights, selected = self.router(rows).topk(NUM_SELECTED)  # (N, 2) each
        weights = weights / weights.sum(dim=-1, keepdim=True)
        order = selected.flatten().argsort(stable=True)  # (2 N,) selections by expert
        twice = rows.repeat_interleave(NUM_SELECTED, dim=0).index_select(0, order)  # (2 N, D)
        parts = zip(self.experts, torch.split(twice, self._num_tokens(selected)), strict=True)
        # In training, an expert without rows is called too: each rank needs all gradients.
        outputs = [expert(part) if self.training or len(part) else part for expert, part in parts]
        pairs = torch.cat(outputs).index_select(0, order.argsort())
        pairs = pairs.view(-1, NUM_SELECTED, rows.size(1))
        return (pairs * weights[..., None].to(pairs.dtype)).sum(dim=1).view(hidden.shape)

    def _num_tokens(self, selected: Tensor) -> list[int]:
        """Return the number of tokens of each expert."""
        if selected.is_meta:  # it has no values; FLOPs are the same for any numbers
            return [selected.numel()] + [0] * (len(self.experts) - 1)
        return selected.flatten().bincount(minlength=len(self.experts)).tolist()


@contextmanager
def recorded_routing(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Yield a dictionary from each router's path to its probabilities (N, X) in the last call."""
    routing: dict[str, Tensor] = {}
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if isinstance(module, Router):

                def record(_: nn.Module, __: object, output: Tensor, path: str = path) -> None:
                    routing[path] = output

                hooks.enter_context(module.register_forward_hook(record))
        yield routing


def balance_loss(probabilities: Tensor, mask: Tensor, segments: Tensor | None = None) -> Tensor:
    """Compute the load-balancing loss of a router: the sum of the losses of the sentences.

    The loss of a sentence with n tokens is n · X · Σ_e f_e P_e, where f_e is the share of expert e
    in the selections of the sentence, and P_e its mean probability (Fedus et al. 2022, equation 4).
    The loss is n if f and P are uniform. Fedus et al. compute f and P over a batch.

    Args:
        probabilities: (B·L, X).
        mask: (B, L), True at real tokens.
        segments: (B, L), number of the sentence in its row, if rows are packed.
    """

    def summed(values: Tensor) -> Tensor:
        """Sum (B, L, E) over the tokens of each sentence: (sentences, E)."""
        if segments is None:
            return values.sum(dim=1)
        sums = values.new_zeros(len(values), values.size(1) + 1, values.size(2))
        return sums.scatter_add(1, segments[..., None].expand_as(values), values).flatten(0, 1)

    probabilities = probabilities.view(*mask.shape, -1)  # (B, L, X)
    real = mask[..., None].to(probabilities.dtype)  # (B, L, 1)
    selected = probabilities.topk(NUM_SELECTED).indices
    is_selected = torch.zeros_like(probabilities).scatter(-1, selected, 1.0)  # (B, L, X)
    # A row has fewer sentences than positions: the others have no tokens.
    shares = summed(is_selected * real) / (NUM_SELECTED * summed(real)).clamp(min=1)
    return probabilities.size(-1) * (shares * summed(probabilities * real)).sum()  # summed: n P
