import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nmt.data.batch import Batch, collate
from nmt.training.loss import _TOKENS_PER_CHUNK, SummedLoss, smoothed_cross_entropy
from tests.support import (
    SpecialIds,
    assert_same_on_two_threads,
    tiny_model_config,
    tiny_transformer,
)

pytestmark = pytest.mark.usefixtures("cpu_library")

VOCABULARY = 23
SPECIAL = SpecialIds(pad_id=0, bos_id=1, eos_id=2)
PAIRS = [([5, 6, 7], [8, 9]), ([5], [10, 11, 12, 13]), ([9, 9, 9, 9], [4]), ([3, 4], [])]


def inputs(rows: int = 1_201, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Enough rows for several chunks."""
    torch.manual_seed(0)
    hidden = torch.randn(rows, 8, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, 8, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, VOCABULARY, (rows,))


def written_out(hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
    """Cross-entropy with (1 - eps) on the correct token and eps spread evenly over all V."""
    log_probs = (hidden @ weight.T).log_softmax(dim=1)
    wanted = torch.full_like(log_probs, eps / VOCABULARY)
    wanted[torch.arange(len(tokens)), tokens] += 1 - eps
    return -(wanted * log_probs).sum()


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_loss_and_its_gradients_equal_the_formula(eps: float, dtype: torch.dtype) -> None:
    hidden, weight, tokens = inputs(dtype=dtype)
    is_double = dtype is torch.float64
    precision = {"rtol": 1e-9, "atol": 1e-9} if is_double else {"rtol": 1e-5, "atol": 1e-4}
    expected = written_out(hidden, weight, tokens, eps)
    gradients = torch.autograd.grad(expected, (hidden, weight))
    found = smoothed_cross_entropy(hidden, weight, tokens, eps)
    torch.testing.assert_close(found, expected, **precision)
    for ours, theirs in zip(torch.autograd.grad(found, (hidden, weight)), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **precision)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_no_gradient_of_a_frozen_projection_is_computed(dtype: torch.dtype) -> None:
    hidden, weight, tokens = inputs(dtype=dtype)
    (expected,) = torch.autograd.grad(smoothed_cross_entropy(hidden, weight, tokens, 0.1), hidden)
    loss = smoothed_cross_entropy(hidden, weight.detach(), tokens, 0.1)
    saved: Any = loss.grad_fn
    assert saved.saved_tensors[1] is None
    assert torch.equal(torch.autograd.grad(loss, hidden)[0], expected)


class LargestTensor(TorchDispatchMode):
    """Records the largest number of elements that an operator returns."""

    num_elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        sizes = [t.numel() for t in tree_leaves(result) if isinstance(t, Tensor)]
        self.num_elements = max(self.num_elements, *sizes, 0)
        return result


@pytest.mark.parametrize(
    ("dtype", "autocast"), [(torch.float64, False), (torch.float32, False), (torch.float32, True)]
)
def test_the_logits_of_all_tokens_never_exist_at_once(dtype: torch.dtype, autocast: bool) -> None:
    hidden, weight, tokens = inputs(3 * _TOKENS_PER_CHUNK, dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast), LargestTensor() as largest:
        smoothed_cross_entropy(hidden, weight, tokens, 0.1).backward()  # type: ignore[no-untyped-call]
    assert largest.num_elements <= max(_TOKENS_PER_CHUNK * VOCABULARY, hidden.numel())


def test_under_autocast_the_loss_is_summed_in_float32() -> None:
    hidden, weight, tokens = inputs(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = smoothed_cross_entropy(hidden, weight, tokens, 0.1)
    assert found.dtype == torch.float32
    expected = written_out(hidden, weight, tokens, 0.1)
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.1)
    ours = torch.autograd.grad(found, (hidden, weight))
    theirs = torch.autograd.grad(expected, (hidden, weight))
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.01


def objective(**model: Any) -> SummedLoss:
    return SummedLoss(tiny_transformer(tiny_model_config(**model), VOCABULARY), 0.1, 0.5)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return collate(pairs, SPECIAL, SPECIAL)


@pytest.mark.parametrize("num_experts", [1, 4])
def test_the_loss_is_the_sum_over_any_split_of_the_pairs(num_experts: int) -> None:
    """Padding does not count, so the losses of micro-batches add up."""
    module = objective(num_experts=num_experts)
    whole = module(batch_of(PAIRS))
    parts = sum(module(batch_of([pair])) for pair in PAIRS)
    torch.testing.assert_close(whole, parts)


def test_the_objective_is_the_loss_of_the_logits() -> None:
    module = objective()
    batch = batch_of(PAIRS)
    model = module.network
    logits = model.project(model(batch.source, batch.source_mask, batch.target_input))
    real = batch.target_mask
    eye = torch.eye(VOCABULARY, dtype=torch.float64)
    expected = written_out(logits[real], eye, batch.target_output[real], 0.1)
    torch.testing.assert_close(module(batch), expected)


def test_the_loss_of_uniform_predictions_is_the_logarithm_of_the_vocabulary_size() -> None:
    module = objective()
    with torch.no_grad():
        module.network.output_weight.zero_()
    logarithm = math.log(VOCABULARY)
    assert float(module(batch_of(PAIRS)).detach()) == pytest.approx(11 * logarithm)


def test_two_threads_give_the_same_gradient_every_time() -> None:
    """Tokens repeat, so a gradient summed in the order of the threads would differ at times."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 7, (4000,))
    hidden, weight = torch.randn(4000, 64), torch.randn(50, 64, requires_grad=True)
    assert_same_on_two_threads(
        lambda: torch.autograd.grad(smoothed_cross_entropy(hidden, weight, tokens, 0.1), weight)[0]
    )


def test_the_loss_includes_the_output_bias() -> None:
    model = tiny_transformer(tiny_model_config(output_bias=True), VOCABULARY)
    assert model.output_bias is not None
    batch = collate(PAIRS, SPECIAL, SPECIAL)
    loss = SummedLoss(model, label_smoothing=0.1)(batch)
    (gradient,) = torch.autograd.grad(loss, model.output_bias)
    logits = model.project(model(batch.source, batch.source_mask, batch.target_input))
    wanted = batch.target_output
    real = batch.target_indices
    expected = F.cross_entropy(
        logits.flatten(0, 1)[real], wanted.flatten()[real], reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.output_bias)[0])
