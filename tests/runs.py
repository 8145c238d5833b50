"""Helpers for tests that interrupt and continue runs, and compare their files."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.soak_runs import difference, timeless
from nmt.base.files import read_json
from nmt.config import Config
from nmt.runs.experiment import run_experiment
from nmt.runs.opening import open_run
from nmt.training.trainer import Trainer
from tests.support import tiny_config, with_batching


class Killed(BaseException):
    """Stands for SIGKILL: ends a run without cleaning up."""


def resumed_config(outputs: Path) -> Config:
    # Logged at every third update, so that interruptions and checkpoints are between records.
    return with_batching(tiny_config(outputs, log_every=3), target_tokens_per_update=300)


def run(config: Config, corpus: Path) -> None:
    open_run(config, corpus)
    run_experiment(config, corpus)


def metrics(config: Config) -> list[dict[str, Any]]:
    text = (config.run_folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [timeless(json.loads(line)) for line in text.splitlines()]


def last_state(config: Config) -> dict[str, Any]:
    """Return optimizer and training state of the last checkpoint, without times."""
    folder = config.run_folder / "checkpoints" / "update_0000010"
    optimizer: dict[str, Any] = torch.load(folder / "training_state.pt", weights_only=True)
    state = timeless(read_json(folder / "manifest.json")["state"])
    return {"optimizer": optimizer, "state": state}


def assert_same(first: Any, second: Any) -> None:
    """Compare bit for bit; the message names the first difference."""
    assert difference(first, second) == ""


def killed_after(
    config: Config, corpus: Path, update: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, and end abruptly before the optimizer step after `update`."""
    step = Trainer._step

    def killed(self: Trainer, *arguments: Any) -> None:
        if self.state.update == update:
            raise Killed
        step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", killed)
        with pytest.raises(Killed):
            run(config, corpus)
