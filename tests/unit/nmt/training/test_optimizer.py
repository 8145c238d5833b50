import copy

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import OptimizerConfig, OptimizerName, TiedEmbeddings
from nmt.training import muon
from nmt.training.muon import orthogonal
from nmt.training.optimizer import build_optimizer, step_flops
from tests.support import tiny_model_config, tiny_transformer


def step(model: nn.Module, optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


@pytest.mark.parametrize("name", OptimizerName)
@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_every_parameter_is_optimized_once(name: OptimizerName, tied: TiedEmbeddings) -> None:
    model = tiny_transformer(tiny_model_config(tied_embeddings=tied))
    groups = build_optimizer(model, OptimizerConfig(name=name)).param_groups
    found = [id(p) for group in groups for p in group["params"]]
    assert sorted(found) == sorted(id(p) for p in model.parameters())
    if name is OptimizerName.muon:
        orthogonalized = {id(p) for p in groups[0]["params"]}
        vocabularies = (model.source_embedding, model.target_embedding, model.projection)
        assert orthogonalized.isdisjoint(id(module.weight) for module in vocabularies)


def test_the_settings_of_adam_are_those_of_the_configuration() -> None:
    config = OptimizerConfig(beta1=0.8, beta2=0.97, epsilon=1e-8)
    optimizer = build_optimizer(nn.Linear(3, 2), config)
    assert isinstance(optimizer, torch.optim.Adam)
    for group in optimizer.param_groups:
        assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.97), 1e-8, 0.0)


def test_weight_decay_applies_to_matrices_only() -> None:
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


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_orthogonalization_keeps_singular_vectors(precision: torch.dtype) -> None:
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
def test_singular_values_stay_bounded(precision: torch.dtype) -> None:
    """At a third of the norm, the first polynomial is nearest to the bound of the second."""
    largest = torch.linspace(0.1, 0.999, 200)
    others = ((1 - largest**2) / 15).sqrt()[:, None].expand(-1, 15)
    made = orthogonal(torch.diag_embed(torch.cat([largest[:, None], others], dim=1)), precision)
    singular = torch.linalg.svdvals(made)
    assert singular.max() < 1.7
    assert singular.min() > 0.4


MUON = OptimizerConfig(name=OptimizerName.muon, weight_decay=0.1)


def give_gradients(model: nn.Module, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)


def tiny(**changes: int) -> nn.Module:
    """A model with gradients."""
    model = tiny_transformer(tiny_model_config(**changes), dtype=torch.float32)
    give_gradients(model, 1)
    return model


def test_muon_updates_the_matrices_of_layers_and_adamw_the_others() -> None:
    model = tiny()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = build_optimizer(model, MUON)
    gradient = model.encoder[0].feed_forward.inner.weight.grad.clone()
    step(model, optimizer, 0.01)
    name = "encoder.0.feed_forward.inner.weight"
    change = before[name] * (1 - 0.01 * 0.1) - dict(model.named_parameters())[name].detach()
    scale = 0.01 * 0.2 * max(gradient.shape) ** 0.5
    made = orthogonal(gradient[None], torch.float32)[0]
    # The first momentum is a twentieth of the gradient, but orthogonalization ignores scale.
    torch.testing.assert_close(change, scale * made, atol=1e-5, rtol=1e-3)
    bias = "encoder.0.feed_forward.inner.bias"
    changes = before[bias] - dict(model.named_parameters())[bias].detach()
    torch.testing.assert_close(changes.abs(), torch.full_like(changes, 0.01))


def test_a_skipped_update_changes_nothing_and_muon_resumes_from_its_state() -> None:
    model = tiny()
    optimizer = build_optimizer(model, MUON)
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
    restored = build_optimizer(other, MUON)
    restored.load_state_dict(saved)
    for one, its_optimizer in ((model, optimizer), (other, restored)):
        give_gradients(one, 3)
        step(one, its_optimizer, 0.01)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_number_of_matrices_per_product_does_not_change_the_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together, alone = tiny(), tiny()
    step(together, build_optimizer(together, MUON), 0.01)
    monkeypatch.setitem(muon._MAX_ELEMENTS, "cpu", 1)
    step(alone, build_optimizer(alone, MUON), 0.01)
    for one, other in zip(together.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_step_flops_equal_the_count_of_torch() -> None:
    model = tiny(key_width=6, value_width=10, num_decoder_layers=3)
    optimizer = build_optimizer(model, MUON)
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    assert step_flops(MUON, model) == counter.get_total_flops() > 0
    assert step_flops(OptimizerConfig(), model) == 0
