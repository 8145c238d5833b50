import pytest
import torch
from torch import Tensor, nn

from nmt.data.batch import collate
from nmt.model.comparators.experts import Experts, balance_loss, recorded_routing
from nmt.training.loss import SummedLoss
from tests.support import SpecialIds, tiny_model_config, tiny_transformer


def experts_of(num_experts: int, width: int = 6) -> Experts:
    torch.manual_seed(0)
    experts = [nn.Linear(width, width) for _ in range(num_experts)]
    return Experts(width, experts).double().eval()


def test_a_token_is_the_weighted_sum_of_its_two_best_experts() -> None:
    layer, hidden = experts_of(5), torch.randn(3, 4, 6, dtype=torch.float64)
    found = layer(hidden)
    for row, output in zip(hidden.flatten(0, 1), found.flatten(0, 1), strict=True):
        logits = layer.router.linear(row)
        best = logits.argsort(descending=True)[:2]
        weights = logits[best].softmax(dim=0)
        expected = sum(w * layer.experts[int(e)](row) for w, e in zip(weights, best, strict=True))
        torch.testing.assert_close(output, expected)


def test_experts_without_tokens_have_a_gradient_in_training() -> None:
    layer = experts_of(5).train()
    layer(torch.randn(1, 6, dtype=torch.float64)).sum().backward()
    gradients = [expert.weight.grad for expert in layer.experts]
    assert sum(float(gradient.abs().sum()) > 0 for gradient in gradients) == 2


def test_a_router_computes_in_float32_under_autocast() -> None:
    layer, hidden = experts_of(5).float(), torch.randn(50, 6)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer.router(hidden)
    assert torch.equal(found, layer.router(hidden))


def routing(*experts: int, num_experts: int = 4) -> Tensor:
    """Probabilities (L, X) of tokens that select one of the experts 0.5 and the next one 0.3."""
    rows = torch.full((len(experts), num_experts), 0.2 / (num_experts - 2))
    for row, expert in zip(rows, experts, strict=True):
        row[expert], row[(expert + 1) % num_experts] = 0.5, 0.3
    return rows


def test_the_balance_loss_is_the_number_of_tokens_when_experts_are_used_equally() -> None:
    is_token = torch.ones(1, 4, dtype=torch.bool)
    assert float(balance_loss(routing(0, 1, 2, 3), is_token)) == pytest.approx(4)
    # Both experts have half of the selections, and 0.5 and 0.3 of the probability.
    assert float(balance_loss(routing(1, 1, 1, 1), is_token)) == pytest.approx(4 * 4 * 0.5 * 0.8)


def test_padding_and_other_sentences_do_not_change_the_balance_loss() -> None:
    probabilities = torch.cat((routing(0, 0, 2), routing(1, 2, 3)))  # (6, X)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    parts = balance_loss(routing(0, 0), mask[:1, :2]) + balance_loss(routing(1, 2, 3), mask[1:])
    torch.testing.assert_close(balance_loss(probabilities, mask), parts)


def test_the_objective_adds_the_balance_of_every_layer() -> None:
    model = tiny_transformer(tiny_model_config(num_experts=4), 23)
    special = SpecialIds(0, 1, 2)
    batch = collate([([5, 6, 7], [8, 9]), ([5], [10, 11, 12])], special, special)
    with recorded_routing(model) as found:
        model(batch.source, batch.source_mask, batch.target_input)
    assert len(found) == 4
    masks = [batch.source_mask] * 2 + [batch.target_mask] * 2
    balance = sum(balance_loss(p, m) for p, m in zip(found.values(), masks, strict=True))
    plain, balanced = SummedLoss(model, 0.1), SummedLoss(model, 0.1, 0.3)
    torch.testing.assert_close(balanced(batch) - plain(batch), 0.3 * balance)
