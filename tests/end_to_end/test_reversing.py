"""A model learns to reverse digits: training, checkpoint selection, saving and translation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.base.files import read_json, read_lines
from nmt.config import (
    Architecture,
    NormPlacement,
    Positions,
    ScheduleConfig,
    ScheduleName,
    ValidationMetric,
)
from nmt.run_folder import Run
from nmt.runs.experiment import run_experiment
from nmt.runs.opening import open_run
from nmt.trained_model import load_trained_model
from nmt.translation.translator import Translator
from tests.support import (
    reversed_digits,
    tiny_config,
    tiny_model_config,
    with_batching,
    write_corpus,
)

TEST = reversed_digits(100, 3, longest=4)


MODELS: dict[Architecture, dict[str, Any]] = {
    Architecture.transformer: {
        "width": 32,
        "num_heads": 4,
        "feed_forward_width": 64,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "norm": NormPlacement.pre,
        "positions": Positions.learned,
    },
    Architecture.recurrent: {"architecture": Architecture.recurrent, "width": 32},
    Architecture.convolutional: {"architecture": Architecture.convolutional, "width": 32},
    Architecture.bytenet: {
        "architecture": Architecture.bytenet,
        "width": 64,
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", MODELS)
def test_model_learns_to_reverse_digits(
    architecture: Architecture, digit_tokenizer_path: Path, tmp_path: Path
) -> None:
    splits = {
        "train": reversed_digits(6000, 1, longest=4),
        "valid": reversed_digits(20, 2, longest=4),
        "test": TEST,
    }
    corpus = write_corpus(tmp_path / "corpus", digit_tokenizer_path, splits)
    base = tiny_config(
        tmp_path, max_updates=240, validate_every=120, validation_metric=ValidationMetric.loss
    )
    config = replace(
        with_batching(base, target_tokens_per_update=400, tokens_per_micro_batch=2048),
        model=tiny_model_config(**MODELS[architecture]),
        schedule=ScheduleConfig(
            name=ScheduleName.cosine, peak_learning_rate=1e-2, warmup_updates=50
        ),
    )
    open_run(config, corpus)
    evaluations = run_experiment(config, corpus)

    assert evaluations is not None
    assert Run(config.run_folder).is_complete
    found = read_lines(config.run_folder / "evaluation" / "test" / "hypotheses.txt")
    exact = sum(ours == reference for ours, (_, reference) in zip(found, TEST, strict=True))
    assert exact >= 95
    assert evaluations[0].scores.bleu.score > 95
    scores = read_json(config.run_folder / "model" / "scores.json")
    assert scores["test_sets"]["test"]["bleu"]["score"] == evaluations[0].scores.bleu.score
    # The saved folder contains the model that was scored.
    model = load_trained_model(config.run_folder / "model")
    translations = Translator(model, model.config.decoding).translate([s for s, _ in TEST])
    assert [best[0].text for best in translations] == found
