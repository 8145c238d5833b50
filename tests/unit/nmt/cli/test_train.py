from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.cli import train as train_module
from nmt.config import Config
from nmt.errors import UserError
from nmt.training.distributed import Process
from tests.support import tiny_config


def test_a_dry_run_of_several_seeds_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Config] = []
    monkeypatch.setattr(train_module, "dry_run", lambda config, corpus: said.append(config))
    config = tiny_config(tmp_path / "outputs")
    config = replace(config, run=replace(config.run, dry_run=True))
    train_module.train_each(config, "1,2")
    assert said == [config]
    assert not (tmp_path / "outputs").exists()
    with pytest.raises(UserError, match="seeds=1,1"):
        train_module.train_each(config, "1,1")


def test_of_several_processes_one_says_what_training_would_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Config] = []
    monkeypatch.setattr(train_module, "dry_run", lambda config, corpus: said.append(config))
    config = tiny_config(tmp_path / "outputs")
    config = replace(config, run=replace(config.run, dry_run=True))
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        train_module.train(config)
    assert len(said) == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_processes_have_joined_before_the_first_opens_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    """To measure for `auto` may take longer than a rendezvous waits."""
    done: list[str] = []

    class Joined(Process):
        def wait_for_first(self) -> None:
            done.append("wait for the first")

        def from_first(self, value: Any) -> Any:
            return value

    def join(training: Any) -> Process:
        done.append("join")
        return Joined(rank, 2, torch.device("cpu"))

    def open_run(config: Config, corpus_folder: Path) -> Config:
        done.append("open")
        return config

    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setattr(train_module.distributed, "join", join)
    monkeypatch.setattr(train_module.experiment, "open_run", open_run)
    monkeypatch.setattr(train_module, "_work", lambda *_: done.append("work"))
    train_module._worker(tiny_config(tmp_path), tmp_path)
    opened = ["open"] if rank == 0 else []
    assert done == ["join", *opened, "wait for the first", "work"]
