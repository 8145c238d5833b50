"""Each format holds a variant of the model exactly, or refuses it and names the key."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.config import (
    Activation,
    Architecture,
    ExportFormat,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.exchange.registry import open_exporter
from nmt.exchange.verify import verify
from nmt.trained_model import TrainedModel
from tests.support import tiny_trained_model


@dataclass(frozen=True)
class Variant:
    """A cell of the matrix; all other keys are those that the format needs, or the defaults."""

    norm: NormPlacement
    tied_embeddings: TiedEmbeddings
    positions: Positions
    activation: Activation

    def __str__(self) -> str:
        return "-".join((self.norm, self.tied_embeddings, self.positions, self.activation))


# Each pair of values of any two keys occurs.
VARIANTS = [
    Variant(norm, tied, positions, list(Activation)[(i + j + k) % 3])
    for i, norm in enumerate(NormPlacement)
    for j, tied in enumerate(TiedEmbeddings)
    for k, positions in enumerate(Positions)
]


def everything(_: Variant) -> bool:
    return True


def classes_of_hugging_face(variant: Variant) -> bool:
    if variant.positions is not Positions.sinusoidal:
        return False
    is_post_norm = variant.norm is NormPlacement.post
    return is_post_norm or variant.tied_embeddings is TiedEmbeddings.three_way


def networks_of_marian(variant: Variant) -> bool:
    is_paper_form = (variant.norm, variant.positions) == (NormPlacement.post, Positions.sinusoidal)
    return is_paper_form and variant.activation is not Activation.gelu


HELD: dict[ExportFormat, Callable[[Variant], bool]] = {
    ExportFormat.huggingface: classes_of_hugging_face,
    ExportFormat.onnx: everything,
    ExportFormat.ctranslate2: everything,
    ExportFormat.argos: everything,
    ExportFormat.marian: networks_of_marian,
}
RUNTIMES = {ExportFormat.huggingface: ["transformers"], ExportFormat.onnx: ["onnx", "onnxruntime"]}


def onnx_copy(graph: Any, path: Path, **_: object) -> None:
    path.write_bytes(graph.SerializeToString())


@cache
def model_of(tokenizer: Path, variant: Variant, is_marian: bool) -> TrainedModel:
    return tiny_trained_model(
        tokenizer,
        norm=variant.norm,
        tied_embeddings=variant.tied_embeddings,
        positions=variant.positions,
        activation=variant.activation,
        start=StartEmbedding.zero if is_marian else StartEmbedding.learned,
        timescales=Timescales.marian if is_marian else Timescales.paper,
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.parametrize("name", ExportFormat)
def test_held_exactly_or_refused(
    tokenizer_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: ExportFormat,
    variant: Variant,
) -> None:
    for package in RUNTIMES.get(name, []):
        pytest.importorskip(package)
    model = model_of(tokenizer_path, variant, name is ExportFormat.marian)
    exporter = open_exporter(name, "")
    if not HELD[name](variant):
        with pytest.raises(UserError, match=r"(model|tokenizer)\.[a-z_]+="):
            exporter.check(model)
        return
    if name is ExportFormat.onnx:  # 8-bit weights take most of the time, and are tested elsewhere
        monkeypatch.setattr("nmt.exchange.onnx.quantize_dynamic", onnx_copy)
    exporter.check(model)
    exporter.export(model, tmp_path)
    tolerance = 5e-10 if name is ExportFormat.huggingface else 1e-4
    for found in verify(exporter.open(model, tmp_path), model):
        assert found.largest_difference < tolerance


@pytest.mark.parametrize("name", ExportFormat)
def test_only_variants_that_others_run_are_exported(
    tokenizer_path: Path, name: ExportFormat
) -> None:
    for package in RUNTIMES.get(name, []):
        pytest.importorskip(package)
    model = tiny_trained_model(tokenizer_path, architecture=Architecture.recurrent)
    with pytest.raises(UserError, match=r"architecture=recurrent: only Transformers can be expor"):
        open_exporter(name, "").check(model)
    for key, value, held in (("num_experts", 3, 1), ("attention_window", 4, 0)):
        model = tiny_trained_model(tokenizer_path, **{key: value})
        message = rf"^model\.{key}={value}: .*model\.{key}={held}$"
        with pytest.raises(UserError, match=message):
            open_exporter(name, "").check(model)
