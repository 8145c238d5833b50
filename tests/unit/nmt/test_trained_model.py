import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import save_file

from nmt.config import TiedEmbeddings
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.trained_model import (
    FORMAT_VERSION,
    TrainedModel,
    load_trained_model,
    read_weights,
    save_trained_model,
    weight_shapes,
)
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

PARTS = {"config.yaml", "weights.safetensors", "tokenizer.model", "scores.json", "README.md"}
SCORES = {"test_sets": {"test": {"bleu": {"score": 31.237, "signature": "nrefs:1|tok:13a"}}}}


@pytest.fixture
def folder(trained_model: TrainedModel, tmp_path: Path) -> Path:
    path = tmp_path / "model"
    save_trained_model(trained_model, path, SCORES)
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
    assert not loaded.transformer.training
    assert translations(loaded) == translations(trained_model)


def test_the_folder_holds_its_parts_and_no_path(folder: Path, tmp_path: Path) -> None:
    assert {path.name for path in folder.iterdir()} == PARTS
    for path in folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()
        assert b"_target_" not in path.read_bytes()
    assert json.loads((folder / "scores.json").read_text(encoding="utf-8")) == SCORES
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert "en-de" in readme
    assert "BLEU 31.24 `nrefs:1|tok:13a`" in readme


def test_a_tied_matrix_is_written_once(folder: Path, trained_model: TrainedModel) -> None:
    shapes = [
        tuple(tensor.shape) for tensor in read_weights(folder / "weights.safetensors").values()
    ]
    assert shapes.count((trained_model.source_tokenizer.vocabulary_size, 16)) == 1


def test_saving_again_replaces_the_folder(trained_model: TrainedModel, folder: Path) -> None:
    (folder / "stray").touch()
    save_trained_model(trained_model, folder, {})
    assert {path.name for path in folder.iterdir()} == PARTS


def test_two_vocabularies_go_there_and_back(tokenizer_path: Path, tmp_path: Path) -> None:
    other = train_tokenizer(tmp_path / "t.model", made_up_sentences(100, seed=1), 120)
    target, source = (tiny_trained_model(path) for path in (other, tokenizer_path))
    config = replace(source.config.model, tied_embeddings=TiedEmbeddings.target)
    torch.manual_seed(0)
    model = TrainedModel(
        replace(source.config, joint_vocabulary=False, model=config),
        type(source.transformer)(
            config, source.source_tokenizer.vocabulary_size, target.target_tokenizer.vocabulary_size
        ).eval(),
        source.source_tokenizer,
        target.target_tokenizer,
    )
    save_trained_model(model, tmp_path / "model", {})
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"tokenizer.en.model", "tokenizer.de.model"} < names
    assert translations(load_trained_model(tmp_path / "model")) == translations(model)


@pytest.mark.parametrize("part", ["config.yaml", "weights.safetensors", "tokenizer.model"])
def test_a_missing_part_is_named(folder: Path, part: str) -> None:
    (folder / part).unlink()
    with pytest.raises(UserError, match=str(folder / part)):
        load_trained_model(folder)


@pytest.mark.parametrize("part", ["scores.json", "README.md"])
def test_what_is_for_people_is_not_needed(folder: Path, part: str) -> None:
    (folder / part).unlink()
    load_trained_model(folder)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'no'}: no such model folder"):
        load_trained_model(tmp_path / "no")


@pytest.mark.parametrize("damage", ["cut", "empty", "text"])
def test_damaged_weights_are_named(folder: Path, damage: str) -> None:
    path = folder / "weights.safetensors"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-100], "empty": b"", "text": b"weights " * 50}[damage])
    with pytest.raises(UserError, match=f"{path}: is damaged"):
        load_trained_model(folder)


def test_shapes_are_read_without_the_tensors(folder: Path, trained_model: TrainedModel) -> None:
    parameters = dict(trained_model.transformer.named_parameters())
    shapes = weight_shapes(folder / "weights.safetensors")
    assert shapes == {name: tuple(weight.shape) for name, weight in parameters.items()}


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (torch.zeros(2, dtype=torch.int64), r"a is I64 of shape \(2,\)"),
        (torch.zeros(2, dtype=torch.bfloat16), r"a is BF16 of shape \(2,\)"),
        (torch.zeros(2, 0), r"a is F32 of shape \(2, 0\)"),
        (torch.tensor([1.0, torch.nan, 3.0]), "a holds NaN or infinity"),
        (torch.tensor([torch.inf]), "a holds NaN or infinity"),
    ],
    ids=str,
)
def test_weights_are_finite_float32(tmp_path: Path, tensor: torch.Tensor, told: str) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"a": tensor}, path)
    with pytest.raises(UserError, match=f"{path}: {told}"):
        read_weights(path)


def edit(folder: Path, **changes: object) -> Path:
    path = folder / "config.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        group, _, leaf = key.rpartition("__")
        (values[group] if group else values)[leaf] = value
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def test_an_unknown_key_is_named(folder: Path) -> None:
    path = edit(folder, model__widht=16)
    with pytest.raises(UserError, match=rf"{path}: .*widht"):
        load_trained_model(folder)


def test_a_newer_format_is_told_from_a_wrong_key(folder: Path) -> None:
    path = edit(folder, format_version=FORMAT_VERSION + 1, a_key_of_the_future=1)
    with pytest.raises(UserError, match=rf"{path}: format_version={FORMAT_VERSION + 1} is newer"):
        load_trained_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"model__width": "wide"},
        {"model__num_heads": 5},
        {"model": 3},
        {"model": [1]},
        {"decoding": None},
        {"decoding__beam_size": 0},
        {"format_version": "one"},
        {"format_version": None},
    ],
    ids=str,
)
def test_values_that_do_not_fit_name_the_file(folder: Path, changes: dict[str, object]) -> None:
    path = edit(folder, **changes)
    with pytest.raises(UserError, match=str(path)):
        load_trained_model(folder)


@pytest.mark.parametrize("text", ["model: [", "- 1", "just text", "\x00"])
def test_a_damaged_configuration_is_named(folder: Path, text: str) -> None:
    path = folder / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=str(path)):
        load_trained_model(folder)


def test_weights_of_another_shape_name_the_tensor(folder: Path) -> None:
    edit(folder, model__feed_forward_width=48)
    with pytest.raises(UserError, match=r"weights\.safetensors: .*feed_forward.* has shape"):
        load_trained_model(folder)


def test_weights_of_another_depth_name_a_tensor(folder: Path) -> None:
    edit(folder, model__num_encoder_layers=3)
    with pytest.raises(UserError, match=r"weights\.safetensors: .*another model: encoder\.2"):
        load_trained_model(folder)


def test_a_tokenizer_of_another_size_is_noticed(folder: Path) -> None:
    train_tokenizer(folder / "tokenizer.model", made_up_sentences(50), 100)
    with pytest.raises(UserError, match=r"weights\.safetensors: .* has shape"):
        load_trained_model(folder)


def test_two_vocabularies_cannot_share_one_matrix(folder: Path) -> None:
    path = edit(folder, joint_vocabulary=False)
    shutil.copy(folder / "tokenizer.model", folder / "tokenizer.en.model")
    train_tokenizer(folder / "tokenizer.de.model", made_up_sentences(50), 100)
    with pytest.raises(UserError, match=str(path)):
        load_trained_model(folder)


def test_a_run_given_for_its_model_is_told_apart(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "some_run"
    run.mkdir()
    folder.rename(run / "model")
    with pytest.raises(UserError, match="its model folder is"):
        load_trained_model(run)


def test_a_missing_key_is_not_a_default(folder: Path) -> None:
    config = folder / "config.yaml"
    lines = config.read_text().splitlines()
    config.write_text("\n".join(line for line in lines if "target_language" not in line))
    with pytest.raises(UserError, match="lacks the key target_language"):
        load_trained_model(folder)


def test_an_interpolation_is_refused(folder: Path) -> None:
    config = folder / "config.yaml"
    config.write_text(
        config.read_text().replace("target_language: de", "target_language: ${oc.env:HOME}")
    )
    with pytest.raises(UserError, match="interpolation"):
        load_trained_model(folder)
