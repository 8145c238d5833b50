"""Predicted memory, held against what autograd keeps."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from nmt.config import Activation, DecodingConfig, ModelConfig, NormPlacement, Positions
from nmt.data.batch import Batch
from nmt.model.memory import (
    Arithmetic,
    Shape,
    Workload,
    micro_batch_memory,
    training_memory,
)
from nmt.model.transformer import Transformer

MODEL = ModelConfig(
    width=64, num_encoder_layers=2, num_decoder_layers=3, num_heads=4, feed_forward_width=160
)
SHAPE = Shape(16, 20, 24)


def kept_bytes(config: ModelConfig, shape: Shape, num_passes: int = 1) -> int:
    """Bytes of all tensors that the forward pass keeps for the backward pass, weights left out."""
    model = Transformer(config, 50, 50).train()
    ours = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, tuple[int, torch.Tensor]] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    source = torch.randint(50, (shape.rows, shape.source))
    target = torch.randint(50, (shape.rows, shape.target))
    mask = torch.ones_like(source, dtype=torch.bool)
    is_token = torch.ones_like(target, dtype=torch.bool)
    batch = Batch(source, mask, target, target, is_token, target.numel())
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        for _ in range(num_passes):
            model(batch.source, batch.source_mask, batch.target_input)
    return sum(size for size, _ in kept.values())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dropout": 0.0},
        {"attention_dropout": 0.1, "activation_dropout": 0.1},
        {"norm": NormPlacement.pre, "activation": Activation.gelu},
        {"activation": Activation.gelu, "activation_dropout": 0.1},
        {"positions": Positions.rotary},
    ],
)
def test_the_sum_is_what_autograd_keeps(changes: dict[str, Any]) -> None:
    config = replace(MODEL, **changes)
    predicted = micro_batch_memory(config, 50, SHAPE, Arithmetic())
    # The prediction holds the loss and what passes by, too: less than a layer of ten.
    assert 1.0 <= predicted / kept_bytes(config, SHAPE) < 1.25


def test_two_passes_are_kept_together() -> None:
    predicted = micro_batch_memory(MODEL, 50, SHAPE, Arithmetic(num_passes=2))
    assert 1.0 <= predicted / kept_bytes(MODEL, SHAPE, 2) < 1.25


@pytest.mark.parametrize("arithmetic", [{}, {"is_cuda": True}, {"is_cuda": True, "is_half": True}])
def test_two_passes_have_two_distributions(arithmetic: dict[str, bool]) -> None:
    """Of so many pieces logits are nearly all there is."""
    once = micro_batch_memory(MODEL, 500_000, SHAPE, Arithmetic(**arithmetic))
    twice = micro_batch_memory(MODEL, 500_000, SHAPE, Arithmetic(**arithmetic, num_passes=2))
    assert 1.8 < twice / once < 3.1


def test_memory_grows_with_what_is_asked_for() -> None:
    def total(shape: Shape, **arithmetic: Any) -> int:
        work = Workload([shape], [Shape(1, 1, 1)])
        search = DecodingConfig()
        return training_memory(MODEL, search, 10_000, 50, work, Arithmetic(**arithmetic)).total

    assert total(Shape(32, 20, 24)) > total(SHAPE)
    assert total(SHAPE, is_shared=True) == total(SHAPE) + 4 * 10_000
    cuda = total(Shape(512, 20, 24), is_cuda=True)
    assert total(Shape(512, 20, 24), is_cuda=True, is_half=True) < cuda
    assert cuda < total(Shape(512, 20, 24))


def test_search_takes_the_weights_again_and_a_batch_a_worker() -> None:
    def search(num_batches: int, **arithmetic: Any) -> int:
        work = Workload([SHAPE], [Shape(8, 10, 40)] * num_batches)
        where = Arithmetic(**arithmetic)
        return training_memory(MODEL, DecodingConfig(), 10_000, 50, work, where).search

    packed = 4 * 10_000
    one = search(1) - packed
    assert one > 0
    assert search(3) - packed == one  # one after the other
    assert search(3, num_workers=2) - packed == pytest.approx(2 * one, abs=1)
    assert search(3, num_workers=8) - packed == pytest.approx(3 * one, abs=1)
    # A GPU decodes with the weights that are there, and its allocator wastes little.
    assert search(1, is_cuda=True) == pytest.approx(one / 1.75, abs=1)
