import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from nmt.base.errors import UserError
from nmt.config import TiedEmbeddings
from nmt.trained_model import (
    TrainedModel,
    is_model,
    load_trained_model,
    read_weights,
    save_trained_model,
)
from nmt.translation.translator import Translator
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

PARTS = {"config.yaml", "weights.safetensors", "tokenizer.model", "scores.json", "README.md"}
SCORES = {"test_sets": {"test": {"bleu": {"score": 31.237, "signature": "nrefs:1|tok:13a"}}}}


@pytest.fixture
def folder(trained_model: TrainedModel, tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save_trained_model(trained_model, path, SCORES, "# A translator\n")
    return path


def translations(model: TrainedModel) -> list[tuple[str, float]]:
    translator = Translator(model, model.config.decoding)
    found = translator.translate(made_up_sentences(6, seed=4))
    return [(best[0].text, best[0].score) for best in found]


def test_a_moved_folder_translates_as_before(
    trained_model: TrainedModel, folder: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "else" / "where"
    moved.parent.mkdir()
    shutil.move(folder, moved)
    loaded = load_trained_model(moved)
    assert loaded.config == trained_model.config
    assert not loaded.network.training
    assert translations(loaded) == translations(trained_model)


def test_the_folder_is_complete_and_contains_no_path(folder: Path, tmp_path: Path) -> None:
    assert {path.name for path in folder.iterdir()} == PARTS
    for path in folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()
        assert b"_target_" not in path.read_bytes()
    assert json.loads((folder / "scores.json").read_text(encoding="utf-8")) == SCORES
    assert (folder / "README.md").read_text(encoding="utf-8") == "# A translator\n"


def test_a_tied_matrix_is_written_once(folder: Path, trained_model: TrainedModel) -> None:
    shapes = [
        tuple(tensor.shape) for tensor in read_weights(folder / "weights.safetensors").values()
    ]
    assert shapes.count((trained_model.source_tokenizer.vocabulary_size, 16)) == 1


def test_saving_again_replaces_the_folder(trained_model: TrainedModel, folder: Path) -> None:
    (folder / "stray").touch()
    save_trained_model(trained_model, folder, {})
    assert {path.name for path in folder.iterdir()} == PARTS


def test_a_model_with_two_vocabularies_is_loaded(tokenizer_path: Path, tmp_path: Path) -> None:
    other = train_tokenizer(tmp_path / "t.model", made_up_sentences(100, seed=1), 120)
    target, source = (tiny_trained_model(path) for path in (other, tokenizer_path))
    config = replace(source.config.model, tied_embeddings=TiedEmbeddings.target)
    torch.manual_seed(0)
    model = TrainedModel(
        replace(source.config, joint_vocabulary=False, model=config),
        type(source.network)(
            config, source.source_tokenizer.vocabulary_size, target.target_tokenizer.vocabulary_size
        ).eval(),
        source.source_tokenizer,
        target.target_tokenizer,
    )
    save_trained_model(model, tmp_path / "model", {})
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"tokenizer.en.model", "tokenizer.de.model"} < names
    assert translations(load_trained_model(tmp_path / "model")) == translations(model)


@pytest.mark.parametrize("part", ["scores.json", "README.md"])
def test_scores_and_readme_are_optional(folder: Path, part: str) -> None:
    (folder / part).unlink()
    load_trained_model(folder)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'no'}: no such folder"):
        load_trained_model(tmp_path / "no")


def edit(folder: Path, **changes: object) -> Path:
    path = folder / "config.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        group, _, leaf = key.rpartition("__")
        (values[group] if group else values)[leaf] = value
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def test_a_forbidden_folder_is_not_an_incomplete_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_model(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match=f"{folder}/config.yaml: cannot be read: permission denied"):
        is_model(folder)


def test_two_vocabularies_cannot_share_one_matrix(folder: Path) -> None:
    path = edit(folder, joint_vocabulary=False)
    shutil.copy(folder / "tokenizer.model", folder / "tokenizer.en.model")
    train_tokenizer(folder / "tokenizer.de.model", made_up_sentences(50), 100)
    with pytest.raises(UserError, match=str(path)):
        load_trained_model(folder)


def test_the_model_of_a_run_folder_is_loaded(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "some_run"
    run.mkdir()
    folder.rename(run / "model")
    assert load_trained_model(run).config == load_trained_model(run / "model").config


def test_a_run_without_a_model_is_not_a_damaged_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("run: {name: some_run}\n")
    with pytest.raises(UserError, match=f"{tmp_path}: this run has no model yet"):
        load_trained_model(tmp_path)


def test_other_users_may_read_a_model_as_any_new_file(
    trained_model: TrainedModel, tmp_path: Path
) -> None:
    (tmp_path / "new").touch()
    save_trained_model(trained_model, tmp_path / "model", {})
    modes = {path.stat().st_mode for path in [tmp_path / "new", *(tmp_path / "model").iterdir()]}
    assert len(modes) == 1
