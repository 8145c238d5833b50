"""The operators of `nmt.model.cpu` equal those of torch, with either library."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model import cpu, cpu_library
from nmt.model.cpu import Dropout, Linear, PackedLinear, ReLUDropout, use_cpu_operators
from tests.support import assert_same_on_two_threads

with_both_libraries = pytest.mark.usefixtures("cpu_library")


def test_the_switch_accepts_float32_outside_of_autocast_and_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matrix = torch.ones(2, 2)
    assert use_cpu_operators(matrix)
    assert not use_cpu_operators(matrix.double())
    assert not use_cpu_operators(matrix.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not use_cpu_operators(matrix)
        assert Linear(2, 2)(matrix).dtype is torch.bfloat16
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not use_cpu_operators(matrix)
    monkeypatch.setattr(cpu_library, "override", "")
    monkeypatch.setattr(
        cpu_library, "default_library", pytest.fail
    )  # it would split a compiled model
    assert not cpu.use_onednn(matrix)


@pytest.mark.parametrize(
    ("capability", "intel", "library"),
    [("AVX512", True, "torch"), ("AVX512", False, "onednn"), ("AVX2", False, "torch")],
)
def test_the_default_library_uses_the_whole_cpu(
    capability: str, intel: bool, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: capability)
    monkeypatch.setattr(cpu_library, "is_intel", lambda: intel)
    assert cpu_library.default_library.__wrapped__() == library


def test_the_environment_variable_overrides_the_selected_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu_library, "override", "")
    monkeypatch.setattr(cpu_library, "_selected", "")
    cpu_library.select_library("onednn")
    assert cpu.use_onednn(torch.ones(2, 2))
    monkeypatch.setattr(cpu_library, "override", "torch")
    assert not cpu.use_onednn(torch.ones(2, 2))


@with_both_libraries
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (3, 4, 5), (33, 5), (1, 1, 5), (0, 5)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_and_its_gradients_equal_torch(
    dtype: torch.dtype, shape: tuple[int, ...], has_bias: bool
) -> None:
    torch.manual_seed(0)
    layer = Linear(5, 7, bias=has_bias, dtype=dtype)
    inputs = torch.randn(shape, dtype=dtype, requires_grad=True)
    found, expected = layer(inputs), F.linear(inputs, layer.weight, layer.bias)
    torch.testing.assert_close(found, expected)
    leaves, direction = [inputs, *layer.parameters()], torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, direction),
        torch.autograd.grad(expected, leaves, direction),
    )


@with_both_libraries
def test_two_threads_give_the_same_gradient_every_time() -> None:
    torch.manual_seed(0)
    layer, inputs, direction = Linear(64, 96), torch.randn(3000, 64), torch.randn(3000, 96)
    assert_same_on_two_threads(
        lambda: torch.autograd.grad(layer(inputs), layer.weight, direction)[0]
    )


@with_both_libraries
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
@pytest.mark.parametrize("shape", [(1, 5), (40, 5), (2, 3, 5)])
@pytest.mark.parametrize("most_unpacked", [34, 35])
def test_packed_linear_equals_torch(
    most_unpacked: int, shape: tuple[int, ...], activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "MOST_UNPACKED", most_unpacked)
    torch.manual_seed(0)
    weight, bias, inputs = torch.randn(7, 5), torch.randn(7), torch.randn(shape)
    expected = F.linear(inputs, weight, bias)
    if activation != "none":
        expected = F.relu(expected) if activation == "relu" else F.gelu(expected)
    layer = PackedLinear(weight, bias, activation)
    assert (layer.library == "torch") == (most_unpacked == 35)
    torch.testing.assert_close(layer(inputs), expected)


def ones(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(300, 1001, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.99])
def test_dropout_has_its_rate_and_keeps_the_mean(rate: float) -> None:
    torch.manual_seed(1)
    dropped = Dropout(rate)(ones())
    share = float((dropped == 0).float().mean())
    # Five standard deviations of the share of 300,300 trials.
    assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / dropped.numel()) ** 0.5)
    assert dropped.max().item() == pytest.approx(1 / (1 - rate), rel=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_dropout_has_the_same_mask(dtype: torch.dtype) -> None:
    hidden = ones(dtype)
    dropped = Dropout(0.3)(hidden)
    dropped.backward(torch.full_like(dropped, 2.0))
    assert hidden.grad is not None
    assert torch.equal(hidden.grad, 2 * dropped.detach())


def test_relu_dropout_is_dropout_of_relu() -> None:
    torch.manual_seed(2)
    hidden = torch.randn(200, 1001, requires_grad=True)
    found = []
    for module in (ReLUDropout(0.25), nn.Sequential(nn.ReLU(), Dropout(0.25))):
        torch.manual_seed(3)
        dropped = module(hidden)
        (gradient,) = torch.autograd.grad(dropped.square().sum(), hidden)
        found.append((dropped, gradient))
    assert all(map(torch.equal, *found))
    assert float((found[0][0] > 0).float().mean()) == pytest.approx(0.375, abs=0.01)


def test_dropout_masks_follow_the_seed_and_differ_from_each_other() -> None:
    def two() -> tuple[Tensor, Tensor]:
        torch.manual_seed(3)
        return dropout(ones()), dropout(ones())

    dropout = Dropout(0.5)
    (first, second), (again, _) = two(), two()
    assert torch.equal(first, again)
    # Independent masks agree in half of the elements.
    assert float((first == second).float().mean()) == pytest.approx(0.5, abs=0.01)
    dropped = (first == 0).float().flatten()
    for distance in (1, 2, 3, 4, 1001):
        both = (dropped[:-distance] * dropped[distance:]).mean().item()
        assert both == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_dropout_is_the_identity_outside_of_training(rate: float) -> None:
    hidden = torch.randn(7, 3)
    assert Dropout(rate).eval()(hidden) is hidden
    assert torch.equal(ReLUDropout(rate).eval()(hidden), F.relu(hidden))
    assert Dropout(0.0)(hidden) is hidden
