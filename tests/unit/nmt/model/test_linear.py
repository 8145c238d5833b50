import pytest
import torch
from torch import Tensor

import nmt.model.linear
from nmt.model.linear import Linear, can_be_packed, linear, product, suits_onednn
from tests.support import assert_same_on_two_threads

pytestmark = pytest.mark.usefixtures("is_intel")


def test_intels_cpus_go_by_mkl_and_others_by_onednn(is_intel: bool) -> None:
    matrix = torch.ones(2, 2)
    has_mkl = torch.backends.mkl.is_available()
    assert suits_onednn(matrix) == (can_be_packed(matrix) and not (is_intel and has_mkl))


def test_without_units_of_512_bits_all_go_by_mkl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    matrix = torch.ones(2, 2)
    assert suits_onednn(matrix) == (can_be_packed(matrix) and not torch.backends.mkl.is_available())


def test_in_half_precision_nobody_asks_who_made_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled model would be cut in two where the answer is read from a file."""
    monkeypatch.setattr(nmt.model.linear, "is_intel", pytest.fail)
    assert not suits_onednn(torch.ones(2, 2, dtype=torch.bfloat16))


def test_while_compiling_nobody_asks_who_made_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nmt.model.linear, "is_intel", pytest.fail)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not suits_onednn(torch.ones(2, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5,), (3, 4, 5), (1, 1, 5), (0, 5)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_it_is_the_product_written_out_and_so_are_its_gradients(
    dtype: torch.dtype, shape: tuple[int, ...], has_bias: bool
) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(shape, dtype=dtype, requires_grad=True)
    weight = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    bias = torch.randn(7, dtype=dtype, requires_grad=True) if has_bias else None
    leaves = [inputs, weight] if bias is None else [inputs, weight, bias]
    expected = inputs @ weight.T + (0 if bias is None else bias)
    found = linear(inputs, weight, bias)
    torch.testing.assert_close(found, expected)
    direction = torch.randn_like(expected)
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves, direction),
        torch.autograd.grad(expected, leaves, direction),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_views_that_are_transposed_need_no_copy() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(5, 9), torch.randn(5, 7)
    torch.testing.assert_close(product(left.t(), right.t()), left.T @ right)


def test_only_wanted_gradients_are_made() -> None:
    layer = Linear(4, 3)
    layer.weight.requires_grad_(False)
    inputs = torch.randn(2, 4)
    layer(inputs).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    torch.testing.assert_close(layer.bias.grad, torch.full((3,), 2.0))


def test_under_autocast_it_is_torchs() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(4, 3)(torch.randn(2, 4)).dtype is torch.bfloat16


def test_two_threads_give_the_same_every_time() -> None:
    torch.manual_seed(0)
    inputs, weight = torch.randn(3000, 64), torch.randn(96, 64)
    direction = torch.randn(3000, 96)

    def gradient() -> Tensor:
        leaf = weight.clone().requires_grad_()
        linear(inputs, leaf).backward(direction)
        assert leaf.grad is not None
        return leaf.grad

    assert_same_on_two_threads(gradient)
