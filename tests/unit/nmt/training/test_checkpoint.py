import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import OptimizerConfig, OptimizerName
from nmt.data.loader import Position
from nmt.model.transformer import Transformer
from nmt.training import checkpoint as checkpoint_module
from nmt.training.checkpoint import CheckpointStore, DamagedCheckpointError, TrainingState
from nmt.training.metrics import MetricSums
from nmt.training.optimizer import build_optimizer
from tests.support import tiny_model_config, tiny_transformer

ADAM = OptimizerConfig()
STATE = TrainingState(
    update=10,
    position=Position(2, 7),
    seconds=12.5,
    target_tokens=1234,
    best_rank=[-3.25, -3.25],
    best_update=10,
    validations_without_best=1,
    validation_due=True,
    metrics=MetricSums(updates=3, loss=1 / 3, gradient_norm=0.1, mean_norm=0.7, num_norms=9),
)


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


def save(store: CheckpointStore, *updates: int, best: int = 0) -> None:
    """Save checkpoints; none is called the best before it is made."""
    transformer, optimizer = trained()
    for update in updates:
        state = replace(STATE, update=update, best_update=min(best, update))
        store.save(transformer, optimizer, state)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", 5, 3)


def load(store: CheckpointStore, update: int) -> TrainingState:
    transformer = model()
    return store.load(update, transformer, build_optimizer(transformer, ADAM))


@pytest.mark.parametrize("config", [ADAM, OptimizerConfig(name=OptimizerName.muon)])
def test_a_checkpoint_restores_weights_optimizer_and_state(
    store: CheckpointStore, config: OptimizerConfig
) -> None:
    transformer, optimizer = trained(config=config)
    assert store.save(transformer, optimizer, STATE).name == "update_0000010"
    other = model(seed=1)
    fresh = build_optimizer(other, config)
    assert store.load(store.newest(), other, fresh) == STATE
    for ours, theirs in zip(transformer.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        assert optimizer.state[ours].keys() == fresh.state[theirs].keys() > {"step"}
        for name, value in optimizer.state[ours].items():
            assert torch.equal(value, fresh.state[theirs][name])


@pytest.mark.parametrize(
    ("name", "changes"),
    [(OptimizerName.adamw, {}), (OptimizerName.muon, {"momentum": 0.7})],
)
def test_other_settings_of_the_optimizer_replace_the_saved_ones(
    store: CheckpointStore, name: OptimizerName, changes: dict[str, float]
) -> None:
    config = OptimizerConfig(name=name, weight_decay=0.01)
    transformer, optimizer = trained(config=config)
    store.save(transformer, optimizer, STATE)
    changes = {"beta1": 0.5, "beta2": 0.6, "epsilon": 1e-3, "weight_decay": 0.2, **changes}
    fresh = build_optimizer(transformer, replace(config, **changes))  # type: ignore[arg-type]
    expected = [{**group, "params": None} for group in fresh.param_groups]
    store.load(STATE.update, transformer, fresh)
    assert [{**group, "params": None} for group in fresh.param_groups] == expected
    assert expected[0]["weight_decay"] == 0.2


@pytest.mark.parametrize(
    ("num_averaged", "updates", "kept"),
    [(2, (5, 10, 15, 20, 25), [20, 25]), (1, (10, 12, 15), [15])],
)
def test_the_last_and_the_best_are_kept(
    tmp_path: Path, num_averaged: int, updates: tuple[int, ...], kept: list[int]
) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", 5, num_averaged)
    assert store.newest() == 0
    assert store.updates() == []
    save(store, *updates, best=10)
    assert store.updates() == [10, *kept]
    assert store.last_updates(num_averaged) == kept
    assert store.newest() == load(store, kept[-1]).update == kept[-1]


def test_an_interruption_changes_neither_what_is_kept_nor_what_is_averaged(
    store: CheckpointStore,
) -> None:
    save(store, 5, 7, 10, 13, best=5)
    assert store.updates() == [5, 10, 13]  # the newest, 13, is needed to continue
    save(store, 15, best=5)
    assert store.updates() == store.last_updates(3) == [5, 10, 15]


def test_the_average_is_the_mean(store: CheckpointStore) -> None:
    transformer, optimizer = trained()
    for update, value in ((5, 0.5), (10, 1.5), (15, 4.0)):
        with torch.no_grad():
            for parameter in transformer.parameters():
                parameter.fill_(value)
        store.save(transformer, optimizer, replace(STATE, update=update))
    assert all(bool((tensor == 2.0).all()) for tensor in store.average([5, 10, 15]).values())
    assert all(bool((tensor == 1.5).all()) for tensor in store.average([10]).values())
    assert store.average([5])["output_weight"].dtype == torch.float32


@pytest.mark.parametrize("name", ["weights.safetensors", "training_state.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "one bit", "empty", "a folder", "a link"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(
    store: CheckpointStore, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    save(store, 5, 10)
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
    assert len(caplog.messages) == 1
    assert str(path) in caplog.messages[0]
    assert store.updates() == [5]
    assert (store.folder / "damaged_update_0000010").is_dir()


def test_a_changed_bit_of_a_manifest_is_detected(store: CheckpointStore) -> None:
    save(store, 5)
    path = store.path(5) / "manifest.json"
    whole = path.read_bytes()
    values = json.loads(whole)
    for index in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[index] ^= 1 << index % 8
        path.write_bytes(damaged)
        with contextlib.suppress(DamagedCheckpointError):
            store.verify(5)
            assert json.loads(damaged) == values  # white space may change


def test_without_an_intact_checkpoint_training_starts_again(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    save(store, 5, 10)
    for update in (5, 10):
        (store.path(update) / "weights.safetensors").unlink()
    assert store.newest() == 0
    assert len(caplog.messages) == 3
    assert "training starts at update 0" in caplog.messages[-1]


def test_damaged_checkpoints_are_renamed_and_the_others_are_found(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture
) -> None:
    save(store, 5, 10, 15)
    (store.path(10) / "weights.safetensors").write_bytes(b"")
    assert list(store.intact()) == [15, 5]
    assert store.updates() == store.last_updates(5) == [5, 15]
    assert "update_0000010" in caplog.messages[0]


def test_counters_can_change_without_the_weights(store: CheckpointStore) -> None:
    save(store, 10)
    before = (store.path(10) / "weights.safetensors").stat().st_mtime_ns
    store.update_state(replace(STATE, validation_due=False, best_update=10))
    assert store.newest() == 10
    assert not load(store, 10).validation_due
    assert (store.path(10) / "weights.safetensors").stat().st_mtime_ns == before


def test_another_format_version_is_reported_and_not_renamed(store: CheckpointStore) -> None:
    save(store, 10)
    path = store.path(10) / "manifest.json"
    manifest = {**json.loads(path.read_text()), "format_version": 99}
    del manifest["sha256"]
    manifest["sha256"] = checkpoint_module._digest_of(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=r"format_version 99, this program reads 4"):
        store.newest()
    assert store.updates() == [10]


def test_a_failed_save_leaves_the_checkpoints_as_they_were(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 5)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save(store, 10)
    assert [path.name for path in store.folder.iterdir()] == ["update_0000005"]


def test_a_checkpoint_of_another_model_is_refused(store: CheckpointStore) -> None:
    save(store, 5)
    other = tiny_transformer(tiny_model_config(num_encoder_layers=2), dtype=torch.float32)
    with pytest.raises(UserError, match=r"weights\.safetensors: .*another model"):
        store.load(5, other, build_optimizer(other, ADAM))


def test_links_and_other_names_are_not_checkpoints(store: CheckpointStore, tmp_path: Path) -> None:
    save(store, 5)
    for name in ("update_0000005.bak", "update_7", "update_00000010", "update_\u0664"):
        (store.folder / name).mkdir()
    (store.folder / "update_0000015").symlink_to(store.path(5))
    (store.folder / ".update_0000015").symlink_to(tmp_path)
    assert store.newest() == 5
    assert store.updates() == [5]
