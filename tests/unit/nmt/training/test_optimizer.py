import torch
from torch import nn

from nmt.config import OptimizerConfig, OptimizerName
from nmt.training.optimizer import build_optimizer
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
