import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.data.batch import Batch, SpecialIds, collate
from nmt.training.loss import SummedLoss, r_drop_loss, smoothed_cross_entropy, token_loss
from tests.support import (
    assert_same_on_two_threads,
    tiny_model_config,
    tiny_transformer,
)

pytestmark = pytest.mark.usefixtures("is_intel")

VOCABULARY = 23
SPECIAL = SpecialIds(pad_id=0, bos_id=1, eos_id=2)
PAIRS = [([5, 6, 7], [8, 9]), ([5], [10, 11, 12, 13]), ([9, 9, 9, 9], [4]), ([3, 4], [])]


def inputs(rows: int = 1_201, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Rows enough for several chunks."""
    torch.manual_seed(0)
    hidden = torch.randn(rows, 8, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, 8, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, VOCABULARY, (rows,))


def written_out(hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float) -> Tensor:
    """Cross-entropy with (1 - eps) on the right token and eps spread evenly over all V."""
    log_probs = (hidden @ weight.T).log_softmax(dim=1)
    wanted = torch.full_like(log_probs, eps / VOCABULARY)
    wanted[torch.arange(len(tokens)), tokens] += 1 - eps
    return -(wanted * log_probs).sum()


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_is_the_formula_written_out_and_so_is_its_gradient(
    eps: float, dtype: torch.dtype
) -> None:
    hidden, weight, tokens = inputs(dtype=dtype)
    is_double = dtype is torch.float64
    precision = {"rtol": 1e-9, "atol": 1e-9} if is_double else {"rtol": 1e-5, "atol": 1e-4}
    expected = written_out(hidden, weight, tokens, eps)
    gradients = torch.autograd.grad(expected, (hidden, weight))
    found = smoothed_cross_entropy(hidden, weight, tokens, eps)
    torch.testing.assert_close(found, expected, **precision)
    for ours, theirs in zip(torch.autograd.grad(found, (hidden, weight)), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **precision)


def test_under_autocast_the_logits_are_summed_in_float32() -> None:
    hidden, weight, tokens = (tensor.detach() for tensor in inputs())
    hidden, weight = hidden.float(), weight.float()
    with torch.autocast("cpu", torch.bfloat16):
        found = smoothed_cross_entropy(hidden, weight, tokens, 0.1)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, written_out(hidden, weight, tokens, 0.1), rtol=0.01, atol=0.1)


def r_drop_written_out(
    hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, alpha: float
) -> Tensor:
    """Half of Liang et al. 2021: both cross-entropies, alpha times the mean divergence."""
    entropies = sum(written_out(one, weight, tokens, eps) for one in hidden)
    p, q = (hidden @ weight.T).log_softmax(dim=2)
    there = F.kl_div(q, p, log_target=True, reduction="sum")
    back = F.kl_div(p, q, log_target=True, reduction="sum")
    loss: Tensor = (entropies + alpha * (there + back) / 2) / 2
    return loss


@pytest.mark.parametrize(("eps", "alpha"), [(0.0, 1.0), (0.1, 5.0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_r_drop_is_the_formula_written_out_and_so_is_its_gradient(
    eps: float, alpha: float, dtype: torch.dtype
) -> None:
    hidden, weight, tokens = inputs(dtype=dtype)
    both = torch.stack([hidden, hidden + torch.randn_like(hidden)])
    is_double = dtype is torch.float64
    precision = {"rtol": 1e-9, "atol": 1e-9} if is_double else {"rtol": 1e-5, "atol": 1e-3}
    expected = r_drop_written_out(both, weight, tokens, eps, alpha)
    gradients = torch.autograd.grad(expected, (hidden, weight), retain_graph=True)
    found = r_drop_loss(both, weight, tokens, eps, alpha)
    torch.testing.assert_close(found, expected, **precision)
    for ours, theirs in zip(torch.autograd.grad(found, (hidden, weight)), gradients, strict=True):
        torch.testing.assert_close(ours, theirs, **precision)


def test_under_autocast_r_drop_sums_in_float32() -> None:
    hidden, weight, tokens = (tensor.detach() for tensor in inputs())
    both = torch.stack([hidden, hidden.flip(1)]).float()
    with torch.autocast("cpu", torch.bfloat16):
        found = r_drop_loss(both, weight.float(), tokens, 0.1, 5.0)
    assert found.dtype == torch.float32
    expected = r_drop_written_out(both, weight.float(), tokens, 0.1, 5.0)
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0.1)


def test_r_drop_without_dropout_is_the_plain_loss() -> None:
    model = tiny_transformer(tiny_model_config(), VOCABULARY)
    batch = batch_of(PAIRS)
    torch.testing.assert_close(SummedLoss(model, 0.1, 5.0)(batch), SummedLoss(model, 0.1)(batch))


def test_the_two_passes_of_r_drop_drop_differently() -> None:
    model = tiny_transformer(tiny_model_config(dropout=0.5), VOCABULARY).train()
    batch = batch_of(PAIRS)

    def loss(alpha: float) -> float:
        torch.manual_seed(3)
        return float(SummedLoss(model, 0.1, alpha)(batch).detach())

    assert loss(5.0) > loss(1.0) > loss(1e-9)
    assert loss(5.0) - loss(1.0) == pytest.approx(4 * (loss(1.0) - loss(1e-9)), rel=1e-4)


def objective(eps: float = 0.1) -> SummedLoss:
    return SummedLoss(tiny_transformer(tiny_model_config(), VOCABULARY), eps)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return collate(pairs, SPECIAL, SPECIAL)


def test_the_sum_does_not_depend_on_how_pairs_are_split() -> None:
    """Padding adds nothing, so micro-batches add up."""
    module = objective()
    whole = module(batch_of(PAIRS))
    parts = sum(module(batch_of([pair])) for pair in PAIRS)
    torch.testing.assert_close(whole, parts)
    halves = module(batch_of(PAIRS[:2])) + module(batch_of(PAIRS[2:]))
    torch.testing.assert_close(whole, halves)


def test_the_objective_is_the_loss_of_the_models_logits() -> None:
    module = objective()
    batch = batch_of(PAIRS)
    model = module.transformer
    logits = model.project(model(batch.source, batch.source_mask, batch.target_input))
    real = batch.target_mask
    eye = torch.eye(VOCABULARY, dtype=torch.float64)
    expected = written_out(logits[real], eye, batch.target_output[real], 0.1)
    torch.testing.assert_close(module(batch), expected)


def test_the_validation_loss_has_neither_smoothing_nor_dropout() -> None:
    model = tiny_transformer(tiny_model_config(dropout=0.5), VOCABULARY).train()
    batches = [batch_of(PAIRS[:3]), batch_of(PAIRS[3:])]
    found = token_loss(model, batches)
    assert model.training
    model.eval()
    expected = sum(float(SummedLoss(model, 0.0)(batch).detach()) for batch in batches)
    assert found.total == pytest.approx(expected)
    assert found.num_tokens == 3 + 5 + 2 + 1
    assert found.mean == pytest.approx(expected / 11)


def test_a_model_that_knows_nothing_loses_the_logarithm_of_the_vocabulary() -> None:
    model = tiny_transformer(tiny_model_config(), VOCABULARY)
    with torch.no_grad():
        model.output_weight.zero_()
    assert token_loss(model, [batch_of(PAIRS)]).mean == pytest.approx(math.log(VOCABULARY))
    assert float(SummedLoss(model, 0.1)(batch_of(PAIRS)).detach()) == pytest.approx(
        11 * math.log(VOCABULARY)
    )


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_two_threads_give_the_same_gradient_every_time(alpha: float) -> None:
    """Tokens repeat, so a gradient summed in the order of the threads would differ at times."""
    torch.manual_seed(0)
    tokens = torch.randint(0, 7, (4000,))
    hidden, weight = torch.randn(2, 4000, 64), torch.randn(50, 64)

    def gradient() -> Tensor:
        leaf = weight.clone().requires_grad_()
        if alpha:
            loss = r_drop_loss(hidden, leaf, tokens, 0.1, alpha)
        else:
            loss = smoothed_cross_entropy(hidden[0], leaf, tokens, 0.1)
        loss.backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        return leaf.grad

    assert_same_on_two_threads(gradient)
