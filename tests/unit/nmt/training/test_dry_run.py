import logging
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from nmt.config import Config, ScheduleConfig
from nmt.data.batch import Batch
from nmt.model.memory import Arithmetic
from nmt.model.transformer import count_parameters
from nmt.training import dry_run as dry_run_module
from nmt.training.distributed import Process
from nmt.training.dry_run import dry_run
from nmt.training.fresh_model import new_model
from nmt.training.rehearsal import Rehearsal
from nmt.training.trainer import PreparedCorpus, Trainer
from nmt.training.updater import OutOfMemory
from nmt.training.workload import Surroundings
from tests.support import tiny_config, with_batching


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", True)
    caplog.set_level(logging.INFO, logger="nmt")
    return caplog


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What a process takes already, and what it may take: else both are of the tests before."""
    sizes = [200_000_000, 10_000_000_000]

    def where(config: Config, device: torch.device) -> Surroundings:
        return Surroundings(Arithmetic(), *sizes)

    monkeypatch.setattr(dry_run_module, "surroundings", where)
    return sizes


def test_what_does_not_fit_is_not_tried(
    told: pytest.LogCaptureFixture, room: list[int], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(dry_run_module, "Rehearsal", pytest.fail)
    room[1] = 300_000_000
    dry_run(tiny_config(tmp_path), None)
    assert "of 0.30 GB that a process may take; processes on this host: 1. That is too much" in (
        told.text
    )
    assert "time         not measured: it does not fit in memory" in told.text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "MemoryError"),
        (OutOfMemory(2, 3, 4, "full"), "out of memory in a micro-batch of 2 pairs, 3 source"),
    ],
)
def test_memory_that_runs_out_is_not_measured(
    told: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    words: str,
) -> None:
    def full(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Rehearsal, "gradient", full)
    dry_run(tiny_config(tmp_path), None)
    assert f"time         not measured: {words}" in told.text


def test_a_mistake_is_no_lack_of_memory(
    told: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Rehearsal, "gradient", wrong)
    with pytest.raises(RuntimeError, match="shapes"):
        dry_run(tiny_config(tmp_path), None)


def test_what_it_says_is_what_training_makes(
    told: pytest.LogCaptureFixture, digit_corpus: Path, tmp_path: Path
) -> None:
    config = tiny_config(tmp_path / "outputs")
    dry_run(config, digit_corpus)
    assert not (tmp_path / "outputs").exists()
    corpus, device = PreparedCorpus(digit_corpus), torch.device("cpu")
    parameters = count_parameters(new_model(config, corpus, device).transformer)
    trainer = Trainer(config, corpus, Process(0, 1, device))
    num_updates = trainer.loader.plan(0).num_updates
    assert f"parameters   {parameters:,}" in told.text
    assert f"epoch        {num_updates} updates, 300 pairs" in told.text
    assert f"training is {10 / num_updates:.1f} epochs" in told.text
    assert "memory       predicted 0." in told.text
    assert "in 10 updates" in told.text
    assert "3 micro-batches of at most 48 padded tokens on the CPU" in told.text


@pytest.mark.parametrize("is_prepared", [True, False])
def test_r_drop_is_twice_the_work(
    told: pytest.LogCaptureFixture, digit_corpus: Path, tmp_path: Path, is_prepared: bool
) -> None:
    work = []
    for r_drop in (0.0, 5.0):
        told.clear()
        dry_run(tiny_config(tmp_path, r_drop=r_drop), digit_corpus if is_prepared else None)
        (found,) = re.findall(r"work +(\S+) floating-point operations an update", told.text)
        work.append(float(found))
    assert work[1] == pytest.approx(2 * work[0], rel=0.01)


@pytest.mark.parametrize(("seconds", "tokens"), [(1.0, "256"), (0.5, "512"), (0.01, "1,024")])
def test_what_is_timed_grows_until_it_takes_long(
    told: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: Any, seconds: float, tokens: str
) -> None:
    now = 0.0

    def gradient(self: Rehearsal, batches: list[Batch]) -> None:
        nonlocal now
        now += seconds * batches[0].num_target_tokens / 256

    monkeypatch.setattr(Rehearsal, "gradient", gradient)
    monkeypatch.setattr(Rehearsal, "step", lambda self: None)
    monkeypatch.setattr(dry_run_module, "time", SimpleNamespace(perf_counter=lambda: now))
    dry_run(with_batching(tiny_config(tmp_path), tokens_per_micro_batch=1024), None)
    assert f"3 micro-batches of at most {tokens} padded tokens on the CPU" in told.text


def test_processes_that_would_be_idle_are_named(
    told: pytest.LogCaptureFixture, digit_corpus: Path, tmp_path: Path
) -> None:
    config = with_batching(tiny_config(tmp_path), tokens_per_micro_batch=4096)
    config = replace(config, training=replace(config.training, num_processes=2))
    dry_run(config, digit_corpus)  # an update is one cell, and one micro-batch
    assert "2 processes, busy for 50 % of it" in told.text
    assert "batching.tokens_per_micro_batch=auto lets them share evenly" in told.text


def test_without_a_corpus_it_says_so(
    told: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_batching(tiny_config(tmp_path), tokens_per_micro_batch="auto")
    config = replace(config, schedule=ScheduleConfig(warmup_updates=2))
    dry_run(config, None)
    assert "epoch        unknown: the corpus is not prepared" in told.text
    assert "s an update" in told.text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(90, "1.5 minutes"), (9000, "2.5 hours"), (864_000, "10.0 days")],
)
def test_durations_are_told_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert dry_run_module._duration(seconds) == words
