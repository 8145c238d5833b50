import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.config import ScheduleConfig
from nmt.model.transformer import count_parameters
from nmt.training import dry_run as dry_run_module
from nmt.training.distributed import Process
from nmt.training.dry_run import dry_run
from nmt.training.fresh_model import new_model
from nmt.training.trainer import PreparedCorpus, Trainer
from tests.support import tiny_config, with_batching


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(logging.getLogger("nmt"), "propagate", True)
    caplog.set_level(logging.INFO, logger="nmt")
    return caplog


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


def test_processes_that_would_be_idle_are_named(
    told: pytest.LogCaptureFixture, digit_corpus: Path, tmp_path: Path
) -> None:
    config = with_batching(tiny_config(tmp_path), target_tokens_per_micro_batch=4096)
    config = replace(config, training=replace(config.training, num_processes=2))
    dry_run(config, digit_corpus)  # an update is one cell, and one micro-batch
    assert "2 processes, busy for 50 % of it" in told.text
    assert "batching.target_tokens_per_micro_batch=auto lets them share evenly" in told.text


def test_without_a_corpus_it_says_so(
    told: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_batching(tiny_config(tmp_path), target_tokens_per_micro_batch="auto")
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
