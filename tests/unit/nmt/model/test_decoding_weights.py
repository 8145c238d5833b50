import resource
from typing import Any

import pytest
import torch

from nmt.config import (
    Activation,
    DecodingPrecision,
    NormPlacement,
    Positions,
    TiedEmbeddings,
)
from nmt.model import cpu
from nmt.model.cpu import PackedLinear
from nmt.model.decoding_weights import DecodingWeights
from nmt.model.transformer import Transformer
from tests.support import tiny_model_config, tiny_transformer

SOURCE = torch.tensor([[4, 5, 6, 7], [8, 9, 10, 2]])
TARGET = torch.tensor([[1, 5, 3], [1, 7, 8]])
MASK = torch.ones_like(SOURCE, dtype=torch.bool)

pytestmark = pytest.mark.usefixtures("cpu_library", "some_are_packed")


@pytest.fixture
def some_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `tiny` have weights of each kind: 256 elements or fewer are not packed."""
    monkeypatch.setattr(cpu, "MOST_UNPACKED", 256)


@torch.inference_mode()
def logits_of(model: Transformer) -> torch.Tensor:
    return model.project(model(SOURCE, MASK, TARGET)).float()


def tiny(**variant: Any) -> Transformer:
    return tiny_transformer(tiny_model_config(**variant), dtype=torch.float32)


@pytest.mark.parametrize(
    "variant",
    [
        *({"tied_embeddings": tied} for tied in TiedEmbeddings),
        {"positions": Positions.rotary, "norm": NormPlacement.pre},
        {"activation": Activation.gelu},
        {"attention_window": 2},
        {"num_experts": 4},
        {"activation": Activation.silu, "output_bias": True},
        # The values of one product are at odd offsets.
        {"positions": Positions.rotary, "num_heads": 1, "key_width": 6, "value_width": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [
        (DecodingPrecision.float32, 1e-5),
        (DecodingPrecision.bfloat16, 0.2),
        (DecodingPrecision.float16, 0.02),
    ],
)
def test_decoding_weights_compute_the_logits_of_the_model(
    precision: DecodingPrecision, tolerance: float, variant: dict[str, Any]
) -> None:
    model = tiny(**variant)
    made = DecodingWeights(model, precision).now()
    difference = (logits_of(made) - logits_of(model)).abs().max()
    assert difference < tolerance
    if precision is not DecodingPrecision.float32:
        assert difference > 1e-4  # it is another precision


def test_weights_are_current_and_the_model_is_not_changed() -> None:
    """Also after a step of a fused optimizer."""
    model = tiny().train()
    names = [name for name, _ in model.named_modules()]
    weights = DecodingWeights(model, DecodingPrecision.float32)
    first = weights.now()
    before = logits_of(first)
    assert model.training
    assert not first.training
    assert [name for name, _ in model.named_modules()] == names
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model(SOURCE, MASK, TARGET).sum().backward()
    optimizer.step()
    after = logits_of(weights.now())
    assert (after - before).abs().max() > 1e-2
    torch.testing.assert_close(after, logits_of(model.eval()))
    with torch.no_grad():
        model.output_weight.mul_(0.5)
    torch.testing.assert_close(logits_of(weights.now()), logits_of(model))
    assert weights.now() is weights.now()


@pytest.mark.parametrize("is_limited", [False, True])
def test_mkl_packs_only_where_addresses_are_not_limited(
    is_limited: bool, cpu_library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 2**40 if is_limited else resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    model = DecodingWeights(tiny(), DecodingPrecision.float32).now()
    assert isinstance(model.projection, PackedLinear)
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    by_mkl = cpu_library == "torch" and has_mkl and not is_limited
    assert model.projection.library == ("mkl" if by_mkl else "onednn")
    assert model.decoder[0].cross_attention.query.library == "torch"
