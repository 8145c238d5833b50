import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from nmt.config import Config, Layout
from nmt.data.corpus import PreparedCorpus
from nmt.model.build import count_parameters
from nmt.model.cost import Processed, training_flops
from nmt.training import dry_run as module
from nmt.training import memory_probe
from nmt.training.distributed import Process
from nmt.training.dry_run import log_cost
from nmt.training.memory_probe import Measurement, Shape
from nmt.training.trainer import Trainer
from tests.support import tiny_config, with_batching

FITS = Measurement(200_000_000, 2_000_000_000, 3.0, 0.6)


@dataclass
class Dry:
    """Dry runs, what they log, and the updates that were given to `measure_updates`."""

    config: Config
    caplog: pytest.LogCaptureFixture
    found: Measurement | None = FITS
    updates: list[list[Shape]] = field(default_factory=list)

    def measure(self, config: Config, sizes: Any, updates: list[list[Shape]]) -> Any:
        self.updates = updates
        return self.found

    def log(self, corpus: Path | None = None, **training: Any) -> str:
        """Make a dry run and return its messages."""
        log_cost(replace(self.config, training=replace(self.config.training, **training)), corpus)
        return self.caplog.text


@pytest.fixture
def dry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Dry]:
    caplog.set_level(logging.INFO, logger="nmt")
    made = Dry(tiny_config(tmp_path / "outputs"), caplog)
    monkeypatch.setattr(module, "measure_updates", made.measure)
    yield made
    assert not (tmp_path / "outputs").exists()


def test_a_dry_run_reports_what_training_does(dry: Dry, digit_corpus: Path) -> None:
    log = dry.log(digit_corpus)
    trainer = Trainer(dry.config, PreparedCorpus(digit_corpus), Process(0, 1, torch.device("cpu")))
    plan = trainer.loader.plan(0)
    assert f"parameters   {count_parameters(trainer.model.network):,}" in log
    assert f"epoch        {plan.num_updates} updates, 300 pairs" in log
    assert f"10 updates, {10 / plan.num_updates:.1f} epochs" in log
    assert "memory       0.20 of 2.00 GB" in log
    parts = [plan.micro_batches(update) for update in range(plan.num_updates)]
    flops = sum(
        training_flops(
            dry.config.model,
            26,
            Processed.of([part.shape], int(plan.target_lengths[part.pairs].sum())),
        )
        for update in parts
        for part in update
    )
    assert f"FLOPs        {flops / plan.num_updates:.3g} per update" in log
    _, measured = dry.updates
    assert (measured[0], measured[-1]) == (parts[0][0].shape, parts[-1][0].shape)


@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
def test_a_dry_run_measures_real_updates(
    dry: Dry, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    def measured(*arguments: Any) -> Measurement:
        sender = Mock()
        memory_probe._measure(sender, *arguments)
        return sender.send.call_args.args[0]

    monkeypatch.setattr(memory_probe, "limit_memory", lambda _: None)  # of this process
    for each in (module, memory_probe):
        monkeypatch.setattr(each, "measure_updates", measured)
    dry.config = with_batching(dry.config, layout=layout, tokens_per_micro_batch="auto")
    log = dry.log(digit_corpus)
    assert "batching.tokens_per_micro_batch=auto: 1" in log
    assert re.search(r"memory +\d+\.\d+ of", log)  # of this process, whatever ran in it before
    assert "s per update" in log


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "out of memory"),
        (replace(FITS, available=100_000_000), "0.20 of 0.10 GB: too much"),
    ],
)
def test_a_lack_of_memory_names_the_key_to_lower(
    dry: Dry, found: Measurement | None, reason: str
) -> None:
    dry.found = found
    log = dry.log()
    assert f"memory       {reason}; lower batching.tokens_per_micro_batch" in log
    assert "per update, " not in log.partition("memory")[2]


def test_the_time_includes_validations_and_scales_with_updates(
    dry: Dry, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_validation_seconds", lambda *_: 60.0)
    log = dry.log(digit_corpus, max_updates=100, validate_every=30)
    # Four validations while training, and one of the average of checkpoints.
    assert "in all, 5 validations of about 60 s included" in log
    flops = float(re.findall(r"FLOPs +(\S+) per update", log)[0])
    [(per_update, *times)] = re.findall(
        r"time +(\S+) s per update, about (\d):(\d\d):(\d\d) in", log
    )
    in_measured = sum(
        training_flops(dry.config.model, 26, Processed.of([shape], shape[0] * shape[2]))
        for shape in dry.updates[1]
    )
    expected = 3.0 * flops / in_measured + 0.6
    assert float(per_update) == pytest.approx(expected, rel=0.01)
    hours, minutes, seconds = map(int, times)
    total = hours * 3600 + minutes * 60 + seconds
    assert total == pytest.approx(5 * 60 + 100 * expected, rel=0.01)


def test_ranks_that_would_be_idle_are_reported(dry: Dry, digit_corpus: Path) -> None:
    dry.config = with_batching(dry.config, tokens_per_micro_batch=4096)
    # An update is one bucket, and one micro-batch.
    assert "2 ranks, busy for 50 % of the time" in dry.log(digit_corpus, num_processes=2)


def test_a_dry_run_without_a_corpus_assumes_lengths(dry: Dry) -> None:
    dry.config = with_batching(dry.config, tokens_per_micro_batch=64)
    log = dry.log()
    assert "epoch        unknown: the corpus is not prepared" in log
    assert "to have 28 tokens" in log
    assert "validation not included" in log
    assert "ranks" not in log
