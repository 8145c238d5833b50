"""A run continued by other numbers of processes has the same updates, and losses to rounding."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak_ranks import fork_workers
from benchmarks.soak_runs import Run, timeless
from nmt.base.files import read_json
from nmt.config import Config
from nmt.runs import train as train_module
from nmt.training.trainer import Trainer
from tests.runs import metrics, resumed_config

pytestmark = pytest.mark.slow


def with_processes(config: Config, number: int) -> Config:
    return replace(config, training=replace(config.training, num_processes=number, num_threads=1))


def stopped_after(update: int, corpus: Path) -> None:
    """Patch a process that trains: SIGTERM comes to the command after this update."""
    module: Any = train_module
    module.prepare_corpus = lambda _: corpus
    fork_workers()
    step, command = Trainer._step, os.getpid()

    def stepped(trainer: Trainer, *arguments: Any) -> None:
        step(trainer, *arguments)
        if trainer.state.update == update and trainer.process.is_main_process:
            os.kill(command, signal.SIGTERM)
            time.sleep(0.3)  # until the launcher has sent it to all ranks

    Trainer._step = stepped  # type: ignore[method-assign]


def test_the_number_of_processes_may_change(
    straight: Config, digit_corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(resumed_config(tmp_path), is_apart=False, install=None)
    for number, update in ((1, 2), (4, 5), (2, 8), (1, 0)):
        run.config = with_processes(run.config, number)
        child = run.attempt(lambda update=update: stopped_after(update, digit_corpus))
        assert child.wait(60) == (128 + signal.SIGTERM if update else 0)
        run.record_interruption(child)
        log = capfd.readouterr().err
        assert f"with {number} process{'es' if number > 1 else ''} on cpu" in log
        assert ("no GPU is available" in log) == (number > 1)
    assert not run.losses

    changed, whole = metrics(run.config), metrics(straight)
    for ours, theirs in zip(changed, whole, strict=True):
        assert ours.keys() == theirs.keys()
        assert ours == pytest.approx(theirs, rel=1e-4)
    state = [
        timeless(read_json(config.run_folder / "checkpoints/update_0000010/manifest.json")["state"])
        for config in (run.config, straight)
    ]
    for key in ("update", "position", "target_tokens"):
        assert state[0][key] == state[1][key]
