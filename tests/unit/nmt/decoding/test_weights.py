import resource
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import DecodingPrecision, NormPlacement, Positions, TiedEmbeddings
from nmt.decoding import weights
from nmt.decoding.translator import Translator
from nmt.decoding.weights import DecodingWeights
from nmt.model.transformer import Transformer
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_model_config, tiny_transformer

SOURCE = torch.tensor([[4, 5, 6, 7], [8, 9, 10, 2]])
TARGET = torch.tensor([[1, 5, 3], [1, 7, 8]])
MASK = torch.ones_like(SOURCE, dtype=torch.bool)

pytestmark = pytest.mark.usefixtures("is_intel")  # packed by MKL, and by oneDNN


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
        # What stands side by side in memory has an odd width.
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
        (DecodingPrecision.int8, 0.3),
    ],
)
def test_decoding_weights_say_what_the_model_says(
    precision: DecodingPrecision, tolerance: float, variant: dict[str, Any]
) -> None:
    model = tiny(**variant)
    made = DecodingWeights(model, precision).now()
    difference = (logits_of(made) - logits_of(model)).abs().max()
    assert difference < tolerance
    if precision is not DecodingPrecision.float32:
        assert difference > 1e-4  # else it would not be another precision


@pytest.mark.slow
def test_compiled_layers_find_the_same(
    trained_model: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Everything but the last stage of the compiler, which takes minutes.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    texts = made_up_sentences(2, seed=4)
    config = replace(trained_model.config.decoding, max_length=5)
    plain, compiled = (
        Translator(trained_model, replace(config, compile=compiles)).translate(texts)
        for compiles in (False, True)
    )
    assert [some[0].text for some in compiled] == [some[0].text for some in plain]


def test_they_follow_the_model_and_leave_it_alone() -> None:
    model = tiny().train()
    names = [name for name, _ in model.named_modules()]
    weights = DecodingWeights(model, DecodingPrecision.float32)
    first = weights.now()
    assert model.training
    assert not first.training
    assert type(model) is Transformer
    assert [name for name, _ in model.named_modules()] == names
    with torch.no_grad():
        model.decoder[0].feed_forward.inner.weight.mul_(2)
        model.output_weight.mul_(0.5)
    torch.testing.assert_close(logits_of(weights.now()), logits_of(model.eval()))
    assert weights.now() is weights.now()


def test_they_follow_a_fused_optimizer_which_counts_no_versions() -> None:
    model = tiny().train()
    weights = DecodingWeights(model, DecodingPrecision.float32)
    before = logits_of(weights.now())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model(SOURCE, MASK, TARGET).sum().backward()
    optimizer.step()
    after = logits_of(weights.now())
    assert (after - before).abs().max() > 1e-2
    torch.testing.assert_close(after, logits_of(model.eval()))
    torch.testing.assert_close(after, logits_of(weights.now()))


@pytest.mark.parametrize("told", ["an address limit", "no overcommitting"])
def test_nothing_is_packed_by_mkl_where_what_it_reserves_counts(
    told: str, is_intel: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    overcommit = tmp_path / "overcommit_memory"
    overcommit.write_text("0\n", encoding="ascii")
    limit = resource.RLIM_INFINITY
    monkeypatch.setattr(weights, "_OVERCOMMIT", overcommit)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    packed: list[torch.Tensor] = []
    reorder = torch.ops.mkl._mkl_reorder_linear_weight

    def counted(weight: torch.Tensor, rows: int) -> torch.Tensor:
        packed.append(weight)
        made: torch.Tensor = reorder(weight, rows)
        return made

    monkeypatch.setattr(torch.ops.mkl, "_mkl_reorder_linear_weight", counted)
    DecodingWeights(tiny(), DecodingPrecision.float32).now()
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    assert bool(packed) == (is_intel and has_mkl)
    packed.clear()
    if told == "an address limit":
        limit = 2**40
    else:
        overcommit.write_text("2\n", encoding="ascii")
    DecodingWeights(tiny(), DecodingPrecision.float32).now()
    assert not packed
