import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from nmt.base.errors import UserError
from nmt.cli import adapt, reproduce
from nmt.cli.train import train_or_report
from nmt.config import Config
from nmt.runs import dry_run as dry_run_module
from nmt.runs import train as train_module
from nmt.tokenizer import Tokenizer
from nmt.training.distributed import Process
from tests.support import tiny_config


def test_a_dry_run_is_reported_once_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Config] = []
    monkeypatch.setattr(dry_run_module, "log_cost", lambda config, corpus: reported.append(config))
    config = tiny_config(tmp_path / "outputs")
    config = replace(config, run=replace(config.run, dry_run=True))
    monkeypatch.setattr(dry_run_module.distributed, "check_launcher", lambda: None)
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        train_or_report(config)
    assert reported == [config]
    assert not (tmp_path / "outputs").exists()


def test_a_dry_run_has_the_vocabulary_size_of_the_users_tokenizer(
    tmp_path: Path, tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Config] = []
    monkeypatch.setattr(dry_run_module, "log_cost", lambda config, corpus: reported.append(config))
    config = tiny_config(tmp_path / "outputs")
    tokenizer = replace(config.tokenizer, path=str(tokenizer_path))
    run = replace(config.run, dry_run=True)
    train_or_report(replace(config, run=run, tokenizer=tokenizer))
    [found] = reported
    size = Tokenizer(tokenizer_path).vocabulary_size
    assert found.tokenizer.vocabulary_size == size != config.tokenizer.vocabulary_size


def test_a_dry_run_refuses_an_initial_model_that_training_would_refuse(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run_module, "log_cost", Mock())
    config = tiny_config(tmp_path / "outputs", initial_model="nowhere")
    config = replace(config, run=replace(config.run, dry_run=True))
    for folder in (None, digit_corpus):
        monkeypatch.setattr(dry_run_module, "find_prepared", Mock(return_value=folder))
        with pytest.raises(UserError, match="nowhere: no such folder"):
            train_or_report(config)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [(adapt, ["initial_model=nowhere", "data=nowhere"]), (reproduce, ["result=multi30k_en_de"])],
)
def test_commands_that_train_and_compare_are_not_for_torchrun(
    module: ModuleType, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match="cannot be combined with torchrun"):
        module.main()


def test_a_rank_without_a_launcher_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match="RANK is set, as by torchrun, but WORLD_SIZE= is not"):
        train_or_report(tiny_config(tmp_path / "outputs"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".lock", "train.log", "checkpoints", "evaluation/test"])
def test_a_run_folder_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    config = tiny_config(tmp_path / "outputs")
    link = config.run_folder / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{name}: leads out of its folder"):
        train_or_report(config)
    link.unlink()
    os.mkfifo(link)
    with pytest.raises(UserError, match=f"{name}: is a device or a pipe"):
        train_or_report(config)
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["runs"]


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_join_before_the_main_process_opens_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    """Measuring the micro-batch size may take longer than a rendezvous waits."""
    done: list[str] = []

    class Joined(Process):
        def broadcast(self, value: Any) -> Any:
            done.append("broadcast")
            return value

    def join(training: Any) -> Process:
        done.append("join")
        return Joined(rank, 2, torch.device("cpu"))

    def open_run(config: Config, corpus_folder: Path) -> Config:
        done.append("open")
        return config

    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setattr(train_module.distributed, "join", join)
    monkeypatch.setattr(train_module, "open_run", open_run)
    monkeypatch.setattr(train_module, "_run", lambda *_: done.append("run"))
    train_module._worker(tiny_config(tmp_path), tmp_path)
    opened = ["open"] if rank == 0 else []
    assert done == ["join", *opened, "broadcast", "run"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), 1),
        (RuntimeError("a mistake"), 1),
        (UserError("a wrong setting"), 2),
    ],
)
def test_a_rank_is_restarted_unless_the_user_has_to_change_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    """The launcher restarts for all statuses but 2. Memory may be free again after a restart."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(train_module.distributed, "join", Mock(side_effect=error))
    with pytest.raises(SystemExit) as ended:
        train_module._worker(tiny_config(tmp_path), tmp_path)
    assert ended.value.code == status


@pytest.mark.parametrize("is_dry_run", [False, True])
@pytest.mark.parametrize("name", ["train.log", "evaluation/test"])
def test_nothing_is_written_through_a_run_folder_of_a_stranger(
    tmp_path: Path, name: str, is_dry_run: bool
) -> None:
    config = tiny_config(tmp_path / "outputs")
    config = replace(config, run=replace(config.run, dry_run=is_dry_run))
    path, precious = config.run_folder / name, tmp_path / "precious"
    path.parent.mkdir(parents=True)
    path.symlink_to(precious)
    with pytest.raises(UserError, match=f"{path}: leads out of its folder; remove it"):
        train_or_report(config)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match=f"{path}: is a device or a pipe; remove it"):
        train_or_report(config)
    assert not precious.exists()
