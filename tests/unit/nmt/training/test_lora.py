import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from nmt.base.errors import UserError
from nmt.config import OptimizerConfig, OptimizerName, from_mapping
from nmt.model.transformer import Transformer
from nmt.training.lora import LoRA
from nmt.training.optimizer import build_optimizer, hidden_matrices
from tests.support import tiny_config, tiny_model_config, tiny_transformer

CONFIG = OptimizerConfig(name=OptimizerName.adamw, lora_rank=2, lora_alpha=6.0, weight_decay=0.1)


class LowRank(nn.Module):
    """W + scale · B A, as a parametrization of torch."""

    def __init__(self, down: Tensor, up: Tensor) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(down), nn.Parameter(up)

    def forward(self, weight: Tensor) -> Tensor:
        return weight + CONFIG.lora_scale * self.up @ self.down


@pytest.fixture
def model() -> Transformer:
    return tiny_transformer(tiny_model_config())


@pytest.fixture
def optimizer(model: Transformer) -> LoRA:
    torch.manual_seed(1)
    optimizer = build_optimizer(model, CONFIG)
    assert isinstance(optimizer, LoRA)
    return optimizer


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for _ in range(steps):
        source, target = (torch.randint(4, 20, (3, 5), generator=generator) for _ in range(2))
        hidden = model(source, torch.ones_like(source, dtype=torch.bool), target)
        logits = F.linear(hidden, model.output_weight)
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        optimizer.step()


def test_matrices_of_the_layers_change_by_the_rank_and_nothing_else_does(
    model: Transformer, optimizer: LoRA
) -> None:
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    trained = {id(matrix) for matrix in hidden_matrices(model)}
    train(model, optimizer, 3)
    assert len(trained) == 2 * 6 + 2 * 10
    for name, parameter in model.named_parameters():
        change = parameter.detach() - before[name]
        rank = int(torch.linalg.matrix_rank(change)) if change.dim() == 2 else int(change.any())
        assert rank == (2 if id(parameter) in trained else 0), name


def test_the_steps_are_those_of_matrices_that_the_model_multiplies(
    model: Transformer, optimizer: LoRA
) -> None:
    written_out = copy.deepcopy(model).requires_grad_(False)
    low_rank = []
    layers = [m for m in written_out.modules() if isinstance(m, nn.Linear)]
    layers = [layer for layer in layers if layer.weight is not written_out.output_weight]
    for layer, (down, up) in zip(layers, optimizer.state_dict()["low_rank"], strict=True):
        assert not up.any()
        parametrization = LowRank(down.clone(), up.clone())
        parametrize.register_parametrization(layer, "weight", parametrization)
        low_rank += [parametrization.down, parametrization.up]
    adamw = torch.optim.AdamW(low_rank, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.1)
    train(model, optimizer, 4)
    train(written_out, adamw, 4)
    for found, layer in zip(hidden_matrices(model), layers, strict=True):
        torch.testing.assert_close(found, layer.weight, rtol=1e-9, atol=1e-9)


def test_the_optimizer_has_moments_of_the_low_rank_matrices_only(
    model: Transformer, optimizer: LoRA
) -> None:
    train(model, optimizer, 1)
    moments = optimizer.state_dict()["state"].values()
    assert len(moments) == 2 * len(hidden_matrices(model))
    assert {2} == {min(each["exp_avg"].shape) for each in moments}


def test_a_skipped_update_changes_nothing(model: Transformer, optimizer: LoRA) -> None:
    train(model, optimizer, 1)
    before = copy.deepcopy(model.state_dict())
    optimizer.found_inf = torch.ones(())
    for matrix in hidden_matrices(model):
        matrix.grad = torch.full_like(matrix, torch.nan)
    optimizer.step()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_loaded_state_continues_alike(model: Transformer, optimizer: LoRA) -> None:
    fresh = copy.deepcopy(model)
    train(model, optimizer, 2)
    other = build_optimizer(fresh, CONFIG)  # with another random A
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for each in ((model, optimizer), (fresh, other)):
        train(*each, 2, seed=1)
    for ours, theirs in zip(model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_state_of_another_rank_or_with_nan_is_refused(
    model: Transformer, optimizer: LoRA
) -> None:
    train(model, optimizer, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    other = build_optimizer(copy.deepcopy(model), replace(CONFIG, lora_rank=3))
    with pytest.raises(ValueError, match="low_rank"):
        other.load_state_dict(copy.deepcopy(saved))
    saved["low_rank"][0][0][0, 0] = torch.nan
    with pytest.raises(ValueError, match="low_rank"):
        optimizer.load_state_dict(saved)


def test_options_of_lora_without_effect_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lora_alpha=4 has no effect without optimizer.lora_rank"):
        OptimizerConfig(lora_alpha=4.0)
    with pytest.raises(
        UserError, match=r"lora_rank=4 has no effect without optimizer.name=adam or"
    ):
        from_mapping(OptimizerConfig, {"name": "muon", "lora_rank": 4}, "test", "optimizer.")
    with pytest.raises(UserError, match=r"name their folder with training.initial_model"):
        replace(tiny_config(tmp_path), optimizer=CONFIG)
    assert OptimizerConfig(lora_rank=8).lora_scale == 2.0
