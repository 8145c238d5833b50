from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from nmt.base.errors import UserError
from nmt.base.files import read_json, write_json
from nmt.config import Config, TokenizerConfig
from nmt.data.corpus import PreparedCorpus
from nmt.runs.opening import open_run
from nmt.tokenizer import Tokenizer
from nmt.trained_model import load_trained_model, save_trained_model, weights_digest
from nmt.training import fresh_model
from nmt.training.fresh_model import new_model
from tests.support import (
    ALONE,
    reversed_digits,
    tiny_config,
    tiny_trained_model,
    train_tokenizer,
    write_corpus,
)


@pytest.fixture
def folder(tmp_path: Path, digit_tokenizer_path: Path) -> Path:
    """A model folder of the tiny architecture, with the subwords of the digit corpus."""
    folder = tmp_path / "models" / "old"
    save_trained_model(tiny_trained_model(digit_tokenizer_path), folder, {})
    return folder


def starting_from(folder: Path, outputs: Path, **model: Any) -> Config:
    config = tiny_config(outputs, initial_model=str(folder))
    return replace(config, model=replace(config.model, **model))


def test_a_training_starts_from_the_weights_of_the_folder(
    folder: Path, tmp_path: Path, digit_corpus: Path
) -> None:
    config = starting_from(folder, tmp_path)
    model = new_model(config, PreparedCorpus(digit_corpus), ALONE.device)
    assert model.config.model.dropout == 0.1  # the folder's is 0
    weights = dict(load_trained_model(folder).network.named_parameters())
    for name, parameter in model.network.named_parameters():
        assert torch.equal(parameter, weights[name])
        assert parameter.requires_grad
    open_run(config, digit_corpus)
    stored = read_json(config.run_folder / "environment.json")["initial_weights"]
    assert stored == weights_digest(folder)


def test_a_training_without_initial_model_records_none(tmp_path: Path, digit_corpus: Path) -> None:
    config = tiny_config(tmp_path)
    open_run(config, digit_corpus)
    path = config.run_folder / "environment.json"
    environment = read_json(path)
    assert environment.pop("initial_weights") == ""
    write_json(path, environment)  # as earlier versions have written it
    open_run(config, digit_corpus)


def test_a_run_continues_only_with_the_weights_that_it_started_from(
    folder: Path, tmp_path: Path, digit_corpus: Path, digit_tokenizer_path: Path
) -> None:
    config = starting_from(folder, tmp_path)
    open_run(config, digit_corpus)
    folder.rename(tmp_path / "moved")
    moved = replace(
        starting_from(tmp_path / "moved", tmp_path),
        run=replace(config.run, accept_changes="training.initial_model"),
    )
    open_run(moved, digit_corpus)
    save_trained_model(tiny_trained_model(digit_tokenizer_path, seed=1), tmp_path / "moved", {})
    with pytest.raises(UserError, match=r"did not start from the weights of .*moved; name the"):
        open_run(moved, digit_corpus)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"num_heads": 4}, r"model.num_heads=4 differs from .*old; set model.num_heads=2"),
        ({"activation": "silu"}, r"model.activation=silu .* set model.activation=relu"),
    ],
)
def test_another_architecture_is_refused(
    folder: Path, tmp_path: Path, digit_corpus: Path, model: dict[str, Any], message: str
) -> None:
    config = starting_from(folder, tmp_path, **model)
    with pytest.raises(UserError, match=message):
        open_run(config, digit_corpus)
    assert not (config.run_folder / "config.yaml").exists()


def test_other_subwords_and_languages_are_refused(
    folder: Path, tmp_path: Path, digit_tokenizer_path: Path
) -> None:
    pairs = reversed_digits(20, 1)
    splits = {"train": pairs, "valid": pairs[:2]}
    config = starting_from(folder, tmp_path)
    other = train_tokenizer(tmp_path / "other.model", [source for source, _ in pairs], 20)
    corpus = write_corpus(tmp_path / "corpora" / "other-1", other, splits)
    with pytest.raises(UserError, match=f"set tokenizer.path={folder} tokenizer.joint=true"):
        open_run(config, corpus)
    corpus = write_corpus(tmp_path / "corpora" / "french-1", digit_tokenizer_path, splits)
    manifest = read_json(corpus / "manifest.json")
    write_json(corpus / "manifest.json", {**manifest, "direction": "en-fr"})
    with pytest.raises(UserError, match="translates en-de, but the corpus is en-fr"):
        open_run(config, corpus)


def test_tying_three_ways_needs_the_same_pieces(
    tmp_path: Path, digit_tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = train_tokenizer(tmp_path / "other.model", ["a b c d e f g"] * 9, 20)
    tokenizers = Tokenizer(digit_tokenizer_path), Tokenizer(other)
    corpus = Mock(tokenizers=lambda: tokenizers)
    config = tiny_config(tmp_path)
    config = replace(config, tokenizer=TokenizerConfig(joint=False, path="mine"))
    monkeypatch.setattr(fresh_model, "PreparedCorpus", lambda folder: corpus)
    with pytest.raises(UserError, match="three_way needs one vocabulary, but the tokenizers"):
        open_run(config, tmp_path)
    assert not config.run_folder.exists()
