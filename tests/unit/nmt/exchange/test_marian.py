"""Files of Marian hold the model, and CTranslate2's converter reads the same model from them."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from nmt.base.errors import UserError
from nmt.config import (
    Activation,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.exchange.marian import SETTINGS, MarianExporter
from nmt.exchange.verify import Text, verify
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_trained_model

SENTENCES = made_up_sentences(8)
TEXT = Text("made-up sentences", SENTENCES, SENTENCES)
MARIAN = {"timescales": Timescales.marian, "start": StartEmbedding.zero}


def marian_model(tokenizer: Path, **variant: Any) -> TrainedModel:
    return tiny_trained_model(tokenizer, **{**MARIAN, **variant})


def binary_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read Marian's binary format by its description in marian-dev, src/common/binary.cpp."""
    content = path.read_bytes()
    version, count = struct.unpack_from("<QQ", content)
    assert version == 1
    headers = [struct.unpack_from("<QQQQ", content, 16 + 32 * i) for i in range(count)]
    position, names, shapes = 16 + 32 * count, [], []
    for length, *_ in headers:
        names.append(content[position : position + length].decode().rstrip("\0"))
        position += length
    for _, _, dimensions, _ in headers:
        shapes.append(struct.unpack_from(f"<{dimensions}i", content, position))
        position += 4 * dimensions
    position += 8 + struct.unpack_from("<Q", content, position)[0]
    arrays = {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        assert position % 256 == 0
        dtype = {0x404: np.float32, 0x101: np.int8}[kind]
        arrays[name] = np.frombuffer(content, dtype, np.prod(shape), position).reshape(shape)
        position += length
    assert position == len(content)
    return arrays


@pytest.mark.parametrize("tied", TiedEmbeddings)
def test_scores_and_translations_are_those_of_torch(
    tokenizer_path: Path, tmp_path: Path, tied: TiedEmbeddings
) -> None:
    bias = tied is not TiedEmbeddings.target
    activation = Activation.silu if bias else Activation.relu
    model = marian_model(
        tokenizer_path, tied_embeddings=tied, activation=activation, output_bias=bias
    )
    exporter = MarianExporter()
    exporter.check(model)
    exporter.export(model, tmp_path)
    [found] = verify(exporter.open(model, tmp_path), model, TEXT)
    assert found.largest_difference < 1e-5
    assert not found.other_texts


def test_both_files_hold_the_same_arrays(tokenizer_path: Path, tmp_path: Path) -> None:
    MarianExporter().export(marian_model(tokenizer_path), tmp_path)
    with np.load(tmp_path / "model.npz") as arrays:
        expected = {name: arrays[name] for name in arrays.files}
    found = binary_arrays(tmp_path / "model.bin")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        padded = found[name][: array.size] if array.ndim == 1 else found[name]
        np.testing.assert_array_equal(padded, array)
    assert bytes(expected[SETTINGS]).endswith(b"\0")


def test_decoder_settings_name_the_files(tokenizer_path: Path, tmp_path: Path) -> None:
    model = marian_model(tokenizer_path)
    MarianExporter().export(model, tmp_path)
    settings = yaml.safe_load((tmp_path / "decoder.yml").read_text())
    assert settings["models"] == ["model.npz"]
    assert settings["vocabs"] == ["vocab.spm", "vocab.spm"]
    assert settings["beam-size"] == model.config.decoding.beam_size
    assert (tmp_path / "vocab.spm").read_bytes() == tokenizer_path.read_bytes()


def test_two_vocabularies(tokenizer_path: Path, digit_tokenizer_path: Path, tmp_path: Path) -> None:
    model = marian_model(tokenizer_path, tied_embeddings=TiedEmbeddings.target)
    target = Tokenizer(digit_tokenizer_path)
    other = marian_model(digit_tokenizer_path, tied_embeddings=TiedEmbeddings.target)
    other.network.source_embedding = model.network.source_embedding
    mixed = replace(other, source_tokenizer=model.source_tokenizer, target_tokenizer=target)
    MarianExporter().export(mixed, tmp_path)
    [found] = verify(MarianExporter().open(mixed, tmp_path), mixed)
    assert found.largest_difference < 1e-5
    assert (tmp_path / "source.spm").read_bytes() == tokenizer_path.read_bytes()
    assert (tmp_path / "target.spm").read_bytes() == digit_tokenizer_path.read_bytes()


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ({"norm": NormPlacement.pre}, "model.norm=pre: format=marian needs model.norm=post"),
        ({"positions": Positions.rotary}, "needs model.positions=sinusoidal"),
        ({"timescales": Timescales.paper}, "needs model.timescales=marian"),
        ({"activation": Activation.gelu}, "needs model.activation=relu or silu"),
        ({"key_width": 4}, "model.key_width=4: this format needs heads"),
    ],
    ids=str,
)
def test_other_variants_are_refused(
    tokenizer_path: Path, variant: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        MarianExporter().check(marian_model(tokenizer_path, **variant))
    assert message in str(caught.value)
    assert "use format=onnx" in str(caught.value)
