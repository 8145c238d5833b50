"""Ten updates straight equal five, an end, and five, bit for bit."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import Config
from nmt.files import read_json
from nmt.trained_model import read_weights
from nmt.training.experiment import open_run, run_experiment
from nmt.training.signals import Interruption
from nmt.training.trainer import Trainer
from tests.support import tiny_config, with_batching


class Killed(BaseException):
    """Stands for the end that a process does not see."""


def resumed_config(outputs: Path) -> Config:
    # A record every third update: stops fall between records, and so do checkpoints.
    return with_batching(tiny_config(outputs, log_every=3), target_tokens_per_update=300)


def run(config: Config, corpus: Path) -> None:
    open_run(config, corpus)
    run_experiment(config, corpus)


def run_until(
    config: Config, corpus: Path, update: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, and end during the update after `update`: by a signal, or at once."""
    place = "_step" if end == "kill" else "_stop_if_told"
    original = getattr(Trainer, place)

    def ending(self: Trainer, *arguments: Any) -> Any:
        if self.progress.update == update:
            if end == "kill":
                raise Killed
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, place, ending)
        with pytest.raises((Killed, Interruption)):
            run(config, corpus)


def timeless(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if "second" not in key}


def metrics(config: Config) -> list[dict[str, Any]]:
    text = (config.run_folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [timeless(json.loads(line)) for line in text.splitlines()]


def last_state(config: Config) -> dict[str, Any]:
    """Optimizer and counters of the last checkpoint, but for time."""
    folder = config.run_folder / "checkpoints" / "update_0000010"
    state: dict[str, Any] = torch.load(folder / "training_state.pt", weights_only=True)
    progress = timeless(read_json(folder / "manifest.json")["progress"])
    return {"optimizer": state, "progress": {**progress, "counts": timeless(progress["counts"])}}


def assert_same(first: Any, second: Any, place: str = "") -> None:
    assert type(first) is type(second), place
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second), place
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), place
        for key in first:
            assert_same(first[key], second[key], f"{place}.{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), place
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            assert_same(one, other, f"{place}.{number}")
    else:
        assert first == second, place


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> Config:
    """Ten updates without an end, over more than one epoch."""
    config = resumed_config(tmp_path_factory.mktemp("straight"))
    run(config, digit_corpus)
    assert {record.get("epoch") for record in metrics(config)} >= {0, 1}
    return config


@pytest.mark.parametrize(
    ("end", "ends_after"),
    [("signal", [5]), ("signal", [3]), ("kill", [5]), ("kill", [7]), ("signal", [2, 4, 6, 9])],
    ids=["stopped", "stopped between", "killed", "killed later", "stopped often"],
)
def test_an_end_leaves_no_trace(
    straight: Config,
    digit_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    ends_after: list[int],
) -> None:
    config = resumed_config(tmp_path)
    for update in ends_after:
        run_until(config, digit_corpus, update, end, monkeypatch)
    assert not (config.run_folder / "result.json").exists()
    run(config, digit_corpus)

    assert metrics(config) == metrics(straight)
    assert_same(last_state(config), last_state(straight))
    for name in ("checkpoints/update_0000010", "model"):
        assert_same(
            read_weights(config.run_folder / name / "weights.safetensors"),
            read_weights(straight.run_folder / name / "weights.safetensors"),
        )
    for name in ("model/scores.json", "evaluation/test/hypotheses.txt"):
        ours, theirs = (folder / name for folder in (config.run_folder, straight.run_folder))
        assert ours.read_bytes() == theirs.read_bytes()
