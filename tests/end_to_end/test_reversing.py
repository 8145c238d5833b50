"""A model learns to turn digits round: the whole of training, choosing, saving and translating."""

from dataclasses import replace
from pathlib import Path

import pytest

from nmt.config import (
    BatchingConfig,
    Config,
    DecodingConfig,
    NormPlacement,
    Positions,
    ScheduleConfig,
    ScheduleName,
    TrainingConfig,
    ValidationMetric,
)
from nmt.decoding.translator import Translator
from nmt.files import read_json, read_lines
from nmt.trained_model import load_trained_model
from nmt.training.experiment import is_complete, open_run, run_experiment
from tests.support import reversed_digits, tiny_config, tiny_model_config, write_corpus

TEST = reversed_digits(100, 3, longest=5)


def reversing(outputs: Path, **model: object) -> Config:
    return replace(
        tiny_config(outputs),
        model=tiny_model_config(
            width=32,
            num_heads=4,
            feed_forward_width=64,
            num_encoder_layers=1,
            num_decoder_layers=1,
            **model,
        ),
        schedule=ScheduleConfig(ScheduleName.cosine, 1e-2, 50),
        batching=BatchingConfig(
            target_tokens_per_update=600,
            tokens_per_micro_batch=2048,
            max_source_length=32,
            max_target_length=32,
        ),
        training=TrainingConfig(
            max_updates=450,
            validate_every=150,
            average_checkpoints=2,
            validation_metric=ValidationMetric.loss,
            num_threads=1,
        ),
        decoding=DecodingConfig(beam_size=2, max_length_ratio=1.0, max_length_offset=4),
    )


@pytest.mark.slow
def test_digits_are_turned_round(digit_tokenizer_path: Path, tmp_path: Path) -> None:
    splits = {
        "train": reversed_digits(6000, 1, longest=5),
        "valid": reversed_digits(40, 2, longest=5),
        "test": TEST,
    }
    corpus = write_corpus(tmp_path / "corpus", digit_tokenizer_path, splits)
    config = reversing(tmp_path, norm=NormPlacement.pre, positions=Positions.learned)
    open_run(config, corpus)
    evaluations = run_experiment(config, corpus)

    assert evaluations is not None
    assert is_complete(config.run_folder)
    found = read_lines(config.run_folder / "evaluation" / "test" / "hypotheses.txt")
    exact = sum(ours == reference for ours, (_, reference) in zip(found, TEST, strict=True))
    assert exact >= 97
    assert evaluations[0].scores.bleu.score > 95
    scores = read_json(config.run_folder / "model" / "scores.json")
    assert scores["test_sets"]["test"]["bleu"]["score"] == evaluations[0].scores.bleu.score
    # The folder that was saved is the model that was scored.
    model = load_trained_model(config.run_folder / "model")
    translations = Translator(model, model.config.decoding).translate([s for s, _ in TEST])
    assert [best[0].text for best in translations] == found
