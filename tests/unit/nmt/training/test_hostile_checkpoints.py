"""Checkpoints that were made to harm, with checksums that are right: one clear line each."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import OptimizerConfig
from nmt.training import checkpoint as module
from nmt.training.checkpoint import CheckpointStore, TrainingState
from nmt.training.optimizer import build_optimizer
from tests.support import tiny_model_config, tiny_transformer

Harm = Callable[[Path], None]


class _Runs:
    """Unpickling it runs a command."""

    def __init__(self, command: str) -> None:
        self._command = command

    def __reduce__(self) -> Any:
        return os.system, (self._command,)


def _state(change: Callable[[dict[str, Any]], Any]) -> Harm:
    def harm(path: Path) -> None:
        file = path / "training_state.pt"
        state = torch.load(file, weights_only=True)
        torch.save(change(state), file)

    return harm


def _moments(change: Callable[[torch.Tensor], Any]) -> Harm:
    def changed(state: dict[str, Any]) -> dict[str, Any]:
        state["state"][0]["exp_avg"] = change(state["state"][0]["exp_avg"])
        return state

    return _state(changed)


def _without_moment(state: dict[str, Any]) -> dict[str, Any]:
    del state["state"][0]["exp_avg_sq"]
    return state


def _counters(**changes: Any) -> Harm:
    def harm(path: Path) -> None:
        file = path / "manifest.json"
        manifest = json.loads(file.read_text())
        manifest["state"].update(changes)
        file.write_text(json.dumps(manifest))

    return harm


def _weights(data: bytes) -> Harm:
    return lambda path: (path / "weights.safetensors").write_bytes(data) and None


HARMS: dict[str, Harm] = {
    "a pickle that runs a command": _state(lambda _: _Runs("touch harmed")),
    "a pickle beside the state": _state(lambda state: {**state, "more": _Runs("touch harmed")}),
    "a state without its groups": _state(lambda _: {"state": {}}),
    "a moment that is missing": _state(_without_moment),
    "moments that would broadcast": _moments(lambda tensor: tensor[:1]),
    "moments that are no numbers": _moments(lambda tensor: tensor * float("nan")),
    "a state of random bytes": lambda path: (
        (path / "training_state.pt").write_bytes(b"PK" * 99) and None
    ),
    "a negative update in its epoch": _counters(position={"epoch": 0, "update_in_epoch": -5}),
    "counters unknown here": _counters(surprise=1),
    "a time without end": _counters(seconds=float("inf")),
    "weights that are a pickle": _weights(b"\x80\x04K\x01."),
    "a header of weights without end": _weights((2**60).to_bytes(8, "little") + b"{}"),
}


@pytest.mark.parametrize("name", HARMS)
def test_it_is_refused_with_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    transformer = tiny_transformer(tiny_model_config(num_encoder_layers=1), dtype=torch.float32)
    optimizer = build_optimizer(transformer, OptimizerConfig())
    for parameter in transformer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    store = CheckpointStore(tmp_path / "checkpoints", 5, 1)
    path = store.save(transformer, optimizer, TrainingState(update=5))
    HARMS[name](path)
    # Whoever harms a checkpoint can also make its checksums right.
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["sha256"]
    manifest["files"] = {file: module._size_and_digest(path / file) for file in manifest["files"]}
    manifest["sha256"] = module._digest_of(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError) as refusal:
        store.load(store.newest(), transformer, optimizer)
    message = str(refusal.value)
    assert str(path) in message
    assert "\n" not in message
    assert not (tmp_path / "harmed").exists()
