"""ONNX graphs compute the scores of torch, in the layout of optimum and transformers.js."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Activation, NormPlacement, Positions, StartEmbedding, TiedEmbeddings
from nmt.config import Timescales as Scales
from nmt.exchange.verify import Text, verify
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_trained_model

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import numpy as np
import onnx

from nmt.exchange.onnx import OnnxExporter

SENTENCES = made_up_sentences(6)
TEXT = Text("made-up sentences", SENTENCES, SENTENCES)


def exported(model: TrainedModel, folder: Path) -> list[Any]:
    """Export a model; return the runtimes of the graphs in float32 and with 8-bit weights."""
    exporter = OnnxExporter()
    exporter.check(model)
    exporter.export(model, folder)
    return list(exporter.open(model, folder))


@pytest.fixture(scope="module")
def export(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    exported(trained_model, folder)
    return folder


@pytest.mark.parametrize(
    "variant",
    [
        {"norm": NormPlacement.pre, "positions": Positions.rotary, "key_width": 12},
        {"positions": Positions.learned, "activation": Activation.gelu},
        {"tied_embeddings": TiedEmbeddings.none, "num_decoder_layers": 1, "output_bias": True},
        {"start": StartEmbedding.zero, "timescales": Scales.marian},
    ],
    ids=str,
)
def test_scores_and_translations_are_those_of_torch(
    tokenizer_path: Path, tmp_path: Path, variant: dict[str, Any]
) -> None:
    """Scores are computed for whole targets, translations token by token from the cache."""
    model = tiny_trained_model(tokenizer_path, **variant)
    [found] = verify(exported(model, tmp_path)[:1], model, TEXT)
    assert found.largest_difference < 1e-5
    assert not found.other_texts


def test_names_are_those_that_other_programs_expect(export: Path) -> None:
    encoder = onnx.load(export / "onnx" / "encoder_model.onnx").graph
    decoder = onnx.load(export / "onnx" / "decoder_model_merged.onnx").graph
    assert [one.name for one in encoder.input] == ["input_ids", "attention_mask"]
    assert [one.name for one in encoder.output] == ["last_hidden_state"]
    cache = [
        f"{layer}.{side}.{kind}"
        for layer in range(2)
        for side in ("decoder", "encoder")
        for kind in ("key", "value")
    ]
    assert [one.name for one in decoder.input] == [
        *("encoder_attention_mask", "input_ids", "encoder_hidden_states"),
        *(f"past_key_values.{name}" for name in cache),
        "use_cache_branch",
    ]
    assert [one.name for one in decoder.output] == ["logits", *(f"present.{n}" for n in cache)]


def test_graphs_are_valid_and_store_a_tied_matrix_once(
    trained_model: TrainedModel, export: Path
) -> None:
    size = trained_model.target_tokenizer.vocabulary_size
    for name in ("encoder_model", "decoder_model_merged"):
        model = onnx.load(export / "onnx" / f"{name}.onnx")
        onnx.checker.check_model(model, full_check=True)
        large = [list(one.dims) for one in model.graph.initializer if size in one.dims]
        assert large == [[16, size]]


def test_sinusoids_reach_beyond_the_longest_training_sentence(
    trained_model: TrainedModel, export: Path
) -> None:
    """transformers.js and optimum generate more tokens than the model's limit if asked to."""
    runtime, _ = OnnxExporter().open(trained_model, export)
    target = [5] * (trained_model.config.model.max_length + 10)
    assert np.isfinite(runtime.token_log_probs([[5, 6]], [target])).all()


def test_eight_bit_weights_have_nearly_the_same_scores(
    trained_model: TrainedModel, export: Path
) -> None:
    _, found = verify(OnnxExporter().open(trained_model, export), trained_model, TEXT)
    assert 1e-4 < found.largest_difference < 0.5
    assert found.lines()[0].startswith("onnxruntime with 8-bit weights: log-probabilities")
    for graph in ("encoder_model", "decoder_model_merged"):
        quantized = onnx.load(export / "onnx" / f"{graph}_quantized.onnx").graph
        stored = {
            one.name for one in quantized.initializer if one.data_type == onnx.TensorProto.FLOAT
        }
        # Only tables of positions, norms, biases and scales are real numbers.
        assert not [name for name in stored if name.endswith("weight") and "norm" not in name]


def test_program_of_the_readme_translates(trained_model: TrainedModel, export: Path) -> None:
    runtime, _ = OnnxExporter().open(trained_model, export)
    (expected,) = runtime.translate([SENTENCES[0]])
    program = OnnxExporter().usage(trained_model).split("\n\nIn JavaScript")[0]
    lines = [line[4:] for line in program.splitlines() if line.startswith("    ")]
    code = "\n".join(lines).replace("A sentence.", SENTENCES[0])
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=export, check=True, capture_output=True, text=True)
    # The program has no limit but that of the model; the weights are random.
    assert run.stdout.startswith(expected)
