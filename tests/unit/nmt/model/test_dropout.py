import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.dropout import Dropout


def ones(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(300, 1001, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.99])
def test_the_rate_is_met_and_the_mean_kept(rate: float) -> None:
    torch.manual_seed(1)
    dropped = Dropout(rate)(ones())
    share = float((dropped == 0).float().mean())
    # Five standard deviations of a share of 300,300 trials.
    assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / dropped.numel()) ** 0.5)
    assert dropped.max().item() == pytest.approx(1 / (1 - rate), rel=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_has_the_mask_of_the_value(dtype: torch.dtype) -> None:
    hidden = ones(dtype)
    dropped = Dropout(0.3)(hidden)
    dropped.backward(torch.full_like(dropped, 2.0))
    assert hidden.grad is not None
    assert torch.equal(hidden.grad, 2 * dropped.detach())


def test_after_relu_is_dropout_of_relu() -> None:
    torch.manual_seed(2)
    hidden = torch.randn(200, 1001, requires_grad=True)
    before = hidden.detach().clone()
    dropped = Dropout(0.25).after_relu(hidden)
    dropped.backward(torch.ones_like(dropped))
    is_kept = dropped > 0
    assert torch.equal(hidden.detach(), before)
    assert not bool((is_kept & (before <= 0)).any())
    torch.testing.assert_close(dropped[is_kept], before[is_kept] / 0.75)
    assert float(is_kept[before > 0].float().mean()) == pytest.approx(0.75, abs=0.01)
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad, is_kept.float() / 0.75)


def test_masks_come_from_torchs_seed_and_differ_within_it() -> None:
    def two() -> tuple[Tensor, Tensor]:
        torch.manual_seed(3)
        return dropout(ones()), dropout(ones())

    dropout = Dropout(0.5)
    (first, second), (again, _) = two(), two()
    assert torch.equal(first, again)
    # Independent masks agree in half of the places.
    assert float((first == second).float().mean()) == pytest.approx(0.5, abs=0.01)


def test_neighbours_are_independent() -> None:
    dropped = (Dropout(0.5)(ones()) == 0).float().flatten()
    for distance in (1, 2, 3, 4, 1001):
        both = (dropped[:-distance] * dropped[distance:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_nothing_is_dropped_outside_training(rate: float) -> None:
    hidden = torch.randn(7, 3)
    dropout = Dropout(rate).eval()
    assert dropout(hidden) is hidden
    assert torch.equal(dropout.after_relu(hidden), F.relu(hidden))
    assert Dropout(0.0)(hidden) is hidden
