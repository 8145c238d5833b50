import contextlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import OptimizerConfig, OptimizerName
from nmt.data.loader import Position
from nmt.errors import UserError
from nmt.model.transformer import Transformer
from nmt.training import checkpoint as checkpoint_module
from nmt.training.checkpoint import CheckpointStore, DamagedCheckpointError, Progress
from nmt.training.optimizer import build_optimizer
from nmt.training.tally import Counts
from tests.support import tiny_model_config, tiny_transformer

ADAM = OptimizerConfig()
PROGRESS = Progress(
    update=10,
    position=Position(2, 7),
    seconds=12.5,
    target_tokens=1234,
    best_rank=[-3.25, -3.25],
    best_update=10,
    validations_without_best=1,
    validation_due=True,
    counts=Counts(updates=3, loss=1 / 3, norm=0.1, mean_norm=0.7, num_norms=9),
)


@pytest.fixture
def said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> pytest.LogCaptureFixture:
    """What is logged."""
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", True)
    return caplog


def model(seed: int = 0) -> Transformer:
    return tiny_transformer(tiny_model_config(num_encoder_layers=1), seed=seed, dtype=torch.float32)


def trained(
    seed: int = 0, config: OptimizerConfig = ADAM
) -> tuple[Transformer, torch.optim.Optimizer]:
    """A model and an optimizer that has made a step."""
    transformer = model(seed)
    optimizer = build_optimizer(transformer, config)
    for parameter in transformer.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.param_groups[0]["lr"] = 0.01
    optimizer.step()
    return transformer, optimizer


def save(store: CheckpointStore, update: int, best: int = 0, weights: float | None = None) -> None:
    transformer, optimizer = trained()
    if weights is not None:
        with torch.no_grad():
            for parameter in transformer.parameters():
                parameter.fill_(weights)
    store.save(transformer, optimizer, replace(PROGRESS, update=update, best_update=best))


def load(store: CheckpointStore, update: int) -> Progress:
    transformer = model()
    return store.load(update, transformer, build_optimizer(transformer, ADAM))


@pytest.mark.parametrize("config", [ADAM, OptimizerConfig(name=OptimizerName.muon)])
def test_everything_comes_back(tmp_path: Path, config: OptimizerConfig) -> None:
    transformer, optimizer = trained(config=config)
    path = CheckpointStore(tmp_path, 5, 3).save(transformer, optimizer, PROGRESS)
    assert path.name == "update_0000010"
    other = model(seed=1)
    fresh = build_optimizer(other, config)
    store = CheckpointStore(tmp_path, 5, 3)
    assert store.load(store.newest(), other, fresh) == PROGRESS
    for ours, theirs in zip(transformer.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert optimizer.state[ours].keys() == fresh.state[theirs].keys() > {"step"}
        for name, value in optimizer.state[ours].items():
            assert torch.equal(value, fresh.state[theirs][name])


@pytest.mark.parametrize("name", [OptimizerName.adamw, OptimizerName.muon])
def test_who_goes_on_with_other_settings_gets_them(tmp_path: Path, name: OptimizerName) -> None:
    config = OptimizerConfig(name=name, weight_decay=0.01)
    transformer, optimizer = trained(config=config)
    store = CheckpointStore(tmp_path, 5, 3)
    store.save(transformer, optimizer, PROGRESS)
    other = replace(config, beta1=0.5, beta2=0.6, epsilon=1e-3, weight_decay=0.2)
    if name is OptimizerName.muon:
        other = replace(other, momentum=0.7)
    fresh = build_optimizer(transformer, other)
    expected = [{**group, "params": None} for group in fresh.param_groups]
    store.load(PROGRESS.update, transformer, fresh)
    assert [{**group, "params": None} for group in fresh.param_groups] == expected
    assert expected[0]["weight_decay"] == 0.2


def test_the_newest_is_loaded(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    for update in (5, 10, 15):
        save(store, update)
    assert store.newest() == 15
    assert load(store, 15).update == 15


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "no", 5, 3)
    assert store.newest() == 0
    assert store.updates() == []


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 2)
    for update in (5, 10, 15, 20, 25):
        save(store, update, best=10 if update >= 10 else 5)
    assert store.updates() == [10, 20, 25]
    assert store.regular_updates() == [20, 25]


def test_two_are_kept_where_one_is_averaged(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    for update in (5, 10, 12, 15):
        save(store, update, best=update)
    assert store.updates() == [10, 15]
    assert store.regular_updates() == [15]


def test_an_interruption_changes_neither_what_is_kept_nor_what_is_averaged(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    for update in (5, 7, 10, 13):
        save(store, update, best=5)
    assert store.updates() == [5, 10, 13]  # the newest, 13, is needed to go on
    save(store, 15, best=5)
    assert store.updates() == store.regular_updates() == [5, 10, 15]


def test_the_average_is_the_mean(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 1, 5)
    for update, value in ((1, 0.5), (2, 1.5), (3, 4.0)):
        save(store, update, weights=value)
    assert all(bool((tensor == 2.0).all()) for tensor in store.average([1, 2, 3]).values())
    assert all(bool((tensor == 1.5).all()) for tensor in store.average([2]).values())
    assert store.average([1])["output_weight"].dtype == torch.float32


@pytest.mark.parametrize("name", ["weights.safetensors", "training_state.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "one bit", "empty", "a folder", "a link"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    tmp_path: Path, name: str, damage: str, said: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    save(store, 5)
    save(store, 10)
    path = store.path(10) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    if damage in {"cut", "one bit", "empty"}:
        path.write_bytes({"cut": data[:-50], "one bit": data, "empty": b""}[damage])
    elif damage == "a folder":
        path.mkdir()
    elif damage == "a link":
        path.symlink_to(store.path(5) / name)
    assert store.newest() == 5
    assert load(store, 5).update == 5
    assert len(said.messages) == 1
    assert str(path) in said.messages[0]
    assert store.updates() == [5]
    assert (tmp_path / "damaged_update_0000010").is_dir()


def test_every_bit_of_a_manifest_counts(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    save(store, 5)
    path = store.path(5) / "manifest.json"
    whole = path.read_bytes()
    values = json.loads(whole)
    unnoticed = []
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with contextlib.suppress(DamagedCheckpointError):
            store.verify(5)
            unnoticed.append(place)
    # White space alone may change unnoticed.
    for place in unnoticed:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        assert json.loads(damaged) == values


def test_without_a_whole_checkpoint_training_starts_over(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    for update in (5, 10):
        save(store, update)
        (store.path(update) / "weights.safetensors").unlink()
    assert store.newest() == 0
    assert len(said.messages) == 3
    assert "training starts over" in said.messages[-1]


def test_a_damaged_checkpoint_is_left_out_of_the_average(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    store = CheckpointStore(tmp_path, 1, 5)
    for update in (1, 2, 3):
        save(store, update)
    (store.path(2) / "weights.safetensors").write_bytes(b"")
    assert store.whole([1, 2, 3]) == [1, 3]
    assert "update_0000002" in said.messages[0]


def test_counters_can_change_without_the_weights(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    save(store, 10)
    before = (store.path(10) / "weights.safetensors").stat().st_mtime_ns
    store.note(replace(PROGRESS, validation_due=False, best_update=10))
    assert store.newest() == 10
    assert not load(store, 10).validation_due
    assert (store.path(10) / "weights.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "manifest",
    [{"update": 10, "sha256": {"weights.safetensors": "0", "training_state.pt": "0"}}, None],
    ids=["the first version", "a later version"],
)
def test_another_version_is_told_and_not_put_aside(
    tmp_path: Path, manifest: dict[str, Any] | None
) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    save(store, 10)
    path = store.path(10) / "manifest.json"
    if manifest is None:
        manifest = {**json.loads(path.read_text()), "format_version": 99}
        del manifest["sha256"]
        manifest["sha256"] = checkpoint_module._digest_of(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"format_version (1|99), this program reads 3"):
        store.newest()
    assert store.updates() == [10]


def test_a_failed_save_leaves_the_checkpoints_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    save(store, 5)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save(store, 10)
    assert [path.name for path in tmp_path.iterdir()] == ["update_0000005"]


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    save(store, 5)
    other = tiny_transformer(tiny_model_config(num_encoder_layers=2), dtype=torch.float32)
    with pytest.raises(UserError, match=r"weights\.safetensors: .*another model"):
        store.load(5, other, build_optimizer(other, ADAM))


def test_a_folder_of_the_users_own_is_no_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    save(store, 5)
    (tmp_path / "update_0000005.bak").mkdir()
    assert store.updates() == [5]
