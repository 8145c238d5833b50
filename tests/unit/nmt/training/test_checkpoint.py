from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.config import OptimizerConfig
from nmt.data.loader import Position
from nmt.errors import UserError
from nmt.model.transformer import Transformer
from nmt.training.checkpoint import CheckpointStore, Progress
from nmt.training.optimizer import build_optimizer
from tests.support import tiny_model_config, tiny_transformer

PROGRESS = Progress(
    update=10,
    position=Position(2, 7),
    seconds=12.5,
    target_tokens=1234,
    best_rank=(-3.25, -3.25),
    best_update=10,
    validations_without_best=1,
    run_id="abc",
)


def model(seed: int = 0) -> Transformer:
    return tiny_transformer(tiny_model_config(num_encoder_layers=1), seed=seed, dtype=torch.float32)


def trained(seed: int = 0) -> tuple[Transformer, torch.optim.Optimizer]:
    """A model and an optimizer that has made a step."""
    transformer = model(seed)
    optimizer = build_optimizer(transformer, OptimizerConfig())
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


def test_everything_comes_back(tmp_path: Path) -> None:
    transformer, optimizer = trained()
    path = CheckpointStore(tmp_path, 5, 3).save(transformer, optimizer, PROGRESS)
    assert path.name == "update_0000010"
    other = model(seed=1)
    fresh = build_optimizer(other, OptimizerConfig())
    assert CheckpointStore(tmp_path, 5, 3).load_last(other, fresh) == PROGRESS
    for ours, theirs in zip(transformer.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)
        for name, value in optimizer.state[ours].items():
            assert torch.equal(value, fresh.state[theirs][name])


def test_the_newest_is_loaded(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    for update in (5, 10, 15):
        save(store, update)
    transformer = model()
    progress = store.load_last(transformer, build_optimizer(transformer, OptimizerConfig()))
    assert progress is not None
    assert progress.update == 15


def test_without_a_checkpoint_there_is_nothing_to_load(tmp_path: Path) -> None:
    transformer = model()
    store = CheckpointStore(tmp_path / "no", 5, 3)
    assert store.load_last(transformer, build_optimizer(transformer, OptimizerConfig())) is None
    assert store.updates() == []


def test_the_last_and_the_best_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 2)
    for update in (5, 10, 15, 20, 25):
        save(store, update, best=10 if update >= 10 else 5)
    assert store.updates() == [10, 20, 25]
    assert store.regular_updates() == [20, 25]


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


@pytest.mark.parametrize("name", ["weights.safetensors", "training_state.pt"])
@pytest.mark.parametrize("damage", ["missing", "cut", "one bit"])
def test_a_damaged_checkpoint_is_named_and_not_loaded(
    tmp_path: Path, name: str, damage: str
) -> None:
    store = CheckpointStore(tmp_path, 5, 3)
    save(store, 10)
    path = store.path(10) / name
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(bytes(data[:-50] if damage == "cut" else data))
    transformer = model()
    with pytest.raises(UserError, match=f"{path} is damaged or missing; remove {store.path(10)}"):
        store.load_last(transformer, build_optimizer(transformer, OptimizerConfig()))


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
        store.load_last(other, build_optimizer(other, OptimizerConfig()))


def test_a_folder_of_the_users_own_is_no_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 5, 1)
    save(store, 5)
    (tmp_path / "update_0000005.bak").mkdir()
    assert store.updates() == [5]
