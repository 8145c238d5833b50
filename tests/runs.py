"""Runs that are ended and continued, and what they leave."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.soak_runs import difference, timeless
from nmt.config import Config
from nmt.files import read_json
from nmt.training.experiment import open_run, run_experiment
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


def metrics(config: Config) -> list[dict[str, Any]]:
    text = (config.run_folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [timeless(json.loads(line)) for line in text.splitlines()]


def last_state(config: Config) -> dict[str, Any]:
    """Optimizer and counters of the last checkpoint, but for time."""
    folder = config.run_folder / "checkpoints" / "update_0000010"
    state: dict[str, Any] = torch.load(folder / "training_state.pt", weights_only=True)
    progress = timeless(read_json(folder / "manifest.json")["progress"])
    return {"optimizer": state, "progress": progress}


def assert_same(first: Any, second: Any) -> None:
    """Tensors bit for bit; the message says where the first difference is."""
    assert difference(first, second) == ""


def killed_after(
    config: Config, corpus: Path, update: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, and end without a goodbye when the update after `update` is to change the weights."""
    step = Trainer._step

    def killed(self: Trainer, *arguments: Any) -> None:
        if self.progress.update == update:
            raise Killed
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killed)
        with pytest.raises(Killed):
            run(config, corpus)
