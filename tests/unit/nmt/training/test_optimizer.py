import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import OptimizerConfig, OptimizerName
from nmt.training import muon
from nmt.training.muon import orthogonal
from nmt.training.optimizer import build_optimizer, step_flops
from tests.support import tiny_model_config, tiny_transformer


def step(model: nn.Module, optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


def test_every_parameter_is_in_it_once() -> None:
    model = tiny_transformer(tiny_model_config())
    optimizer = build_optimizer(model, OptimizerConfig())
    found = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in model.parameters())


def test_a_step_is_adams_written_out() -> None:
    model = nn.Linear(3, 2).double()
    before = model.weight.detach().clone()
    optimizer = build_optimizer(model, OptimizerConfig(beta1=0.9, beta2=0.98, epsilon=1e-9))
    first, second = torch.zeros_like(before), torch.zeros_like(before)
    expected = before.clone()
    for number in (1, 2, 3):
        torch.manual_seed(number)
        gradient = torch.randn_like(before)
        model.weight.grad, model.bias.grad = gradient.clone(), torch.zeros_like(model.bias)
        step(model, optimizer, 0.01)
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        root = (second / (1 - 0.98**number)).sqrt()
        expected = expected - 0.01 * (first / (1 - 0.9**number)) / (root + 1e-9)
    torch.testing.assert_close(model.weight.detach(), expected)


def test_decay_pulls_matrices_only() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
    config = OptimizerConfig(name=OptimizerName.adamw, weight_decay=0.1)
    optimizer = build_optimizer(model, config)
    assert isinstance(optimizer, torch.optim.AdamW)
    step(model, optimizer, 0.5)
    for parameter in model.parameters():
        expected = 1 - 0.5 * 0.1 if parameter.dim() > 1 else 1.0
        torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, expected))


def test_without_a_rate_nothing_moves() -> None:
    """The trainer sets the rate before each step."""
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    optimizer = build_optimizer(model, OptimizerConfig())
    model.weight.grad, model.bias.grad = torch.ones_like(model.weight), torch.ones_like(model.bias)
    optimizer.step()
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_orthogonal_matrices_keep_their_directions(precision: torch.dtype) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(3, 40, 16) @ torch.diag(torch.logspace(-1, 1, 16))
    for batch in (matrices, matrices.mT):
        made = orthogonal(batch, precision)
        assert made.shape == batch.shape
        left, _, right = torch.linalg.svd(batch, full_matrices=False)
        singular = torch.einsum("nak,nab,nkb->nk", left, made, right)
        assert singular.min() > 0.4
        assert singular.max() < 1.7


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_no_singular_value_runs_away(precision: torch.dtype) -> None:
    """A third of the norm is where the first polynomial comes nearest to the end of the second."""
    largest = torch.linspace(0.1, 0.999, 200)
    others = ((1 - largest**2) / 15).sqrt()[:, None].expand(-1, 15)
    made = orthogonal(torch.diag_embed(torch.cat([largest[:, None], others], dim=1)), precision)
    singular = torch.linalg.svdvals(made)
    assert singular.max() < 1.7
    assert singular.min() > 0.4


def muon_config() -> OptimizerConfig:
    return OptimizerConfig(name=OptimizerName.muon, weight_decay=0.1)


def muon_of(model: nn.Module) -> torch.optim.Optimizer:
    return build_optimizer(model, muon_config())


def give_gradients(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def test_muon_moves_matrices_of_layers_and_adam_the_others() -> None:
    model = tiny_transformer(tiny_model_config(), dtype=torch.float32)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = muon_of(model)
    give_gradients(model, 1)
    gradient = model.encoder[0].feed_forward.inner.weight.grad.clone()
    step(model, optimizer, 0.01)
    name = "encoder.0.feed_forward.inner.weight"
    moved = before[name] * (1 - 0.01 * 0.1) - dict(model.named_parameters())[name].detach()
    scale = 0.01 * 0.2 * max(gradient.shape) ** 0.5
    made = orthogonal(gradient[None], torch.float32)[0]
    # The first momentum is a twentieth of the gradient, whose size does not count.
    torch.testing.assert_close(moved, scale * made, atol=1e-5, rtol=1e-3)
    bias = "encoder.0.feed_forward.inner.bias"
    changes = before[bias] - dict(model.named_parameters())[bias].detach()
    torch.testing.assert_close(changes.abs(), torch.full_like(changes, 0.01))


def test_a_refused_gradient_moves_nothing_and_muon_goes_on_as_saved() -> None:
    model = tiny_transformer(tiny_model_config(), dtype=torch.float32)
    optimizer = muon_of(model)
    give_gradients(model, 1)
    step(model, optimizer, 0.01)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    saved = copy.deepcopy(optimizer.state_dict())
    give_gradients(model, 2)
    for parameter in model.parameters():
        parameter.grad.fill_(torch.nan)
    optimizer.found_inf = torch.tensor(1.0)
    step(model, optimizer, 0.01)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())
    optimizer.found_inf = torch.tensor(0.0)
    other = copy.deepcopy(model)
    restored = muon_of(other)
    restored.load_state_dict(saved)
    for one, its_optimizer in ((model, optimizer), (other, restored)):
        give_gradients(one, 3)
        step(one, its_optimizer, 0.01)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_how_many_matrices_move_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = (tiny_transformer(tiny_model_config(), dtype=torch.float32) for _ in range(2))
    give_gradients(together, 1)
    step(together, muon_of(together), 0.01)
    monkeypatch.setitem(muon._MOST_NUMBERS, "cpu", 1)
    give_gradients(alone, 1)
    step(alone, muon_of(alone), 0.01)
    for one, other in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_torch_counts_as_many_operations_of_a_step() -> None:
    config = tiny_model_config(key_width=6, value_width=10, num_decoder_layers=3)
    model = tiny_transformer(config, dtype=torch.float32)
    optimizer = muon_of(model)
    give_gradients(model, 1)
    # torch counts its own products only.
    with (
        torch.backends.mkldnn.flags(enabled=False),  # type: ignore[no-untyped-call]
        FlopCounterMode(display=False) as counter,
    ):
        optimizer.step()
    assert step_flops(muon_config(), config) == counter.get_total_flops() > 0
    assert step_flops(OptimizerConfig(), config) == 0
