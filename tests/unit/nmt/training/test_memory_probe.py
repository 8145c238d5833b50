import logging
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import Config, Layout, load_config
from nmt.data.batching import BucketedPlan
from nmt.data.corpus import PreparedCorpus
from nmt.data.packing import PackedPlan
from nmt.data.plan import EpochPlan
from nmt.runs import opening
from nmt.training import memory_probe
from nmt.training.memory_probe import (
    Measurement,
    Shape,
    balanced_size,
    first_epoch,
    measure_updates,
    resolve_auto,
)
from tests.support import tiny_config, with_batching

SIZES = 26, 26


@pytest.fixture
def auto(tmp_path: Path) -> Config:
    return with_batching(tiny_config(tmp_path), tokens_per_micro_batch="auto")


@pytest.fixture
def plan(auto: Config, digit_corpus: Path) -> EpochPlan:
    return first_epoch(auto, PreparedCorpus(digit_corpus))[0]


def measuring(
    monkeypatch: pytest.MonkeyPatch, peak: Callable[[int], int | None]
) -> list[tuple[int, ...]]:
    """Let `measure_updates` report `peak` of the padded tokens that it is given."""
    tried = []

    def measured(config: Config, sizes: Any, updates: list[list[Shape]]) -> Measurement | None:
        first, second = updates
        assert first == second
        tried.append(tuple(rows * max(lengths) for rows, *lengths in first))
        found = peak(max(tried[-1]))
        return None if found is None else Measurement(found, 1000, 1.0, 1.0)

    monkeypatch.setattr(memory_probe, "measure_updates", measured)
    return tried


def chosen(config: Config) -> int:
    return config.batching.max_micro_batch_tokens


@pytest.mark.parametrize(("limit", "too_much"), [(1 << 40, 0), (80, 1001), (80, None)])
def test_micro_batches_are_halved_from_the_largest_of_an_update_until_they_fit(
    auto: Config,
    plan: EpochPlan,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    too_much: int | None,
) -> None:
    tried = measuring(monkeypatch, lambda tokens: 1000 if tokens <= limit else too_much)
    tokens = chosen(resolve_auto(auto, plan, SIZES))
    # An update of 160 target tokens is one bucket.
    assert 160 <= tried[0][0] < 2 * 160
    assert tokens == tried[0][0] // 2 ** (len(tried) - 1)
    assert (len(tried) == 1) == (limit > 160)
    assert max(tried[-1]) <= min(limit, tokens)


def test_on_a_gpu_starting_a_micro_batch_has_a_cost(
    auto: Config, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = PreparedCorpus(digit_corpus)
    plan = first_epoch(auto, corpus)[0]
    monkeypatch.setattr(memory_probe.distributed, "local_device", lambda: torch.device("cuda"))
    merging = first_epoch(auto, corpus)[0]
    assert isinstance(plan, BucketedPlan)
    assert isinstance(merging, BucketedPlan)
    assert plan.start_tokens == 0 < merging.start_tokens


def test_packed_rows_are_halved_as_a_whole(
    auto: Config, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = with_batching(auto, layout=Layout.packed)
    plan = first_epoch(packed, PreparedCorpus(digit_corpus))[0]
    assert isinstance(plan, PackedPlan)
    rows, length = plan.num_rows, packed.batching.longest
    tried = measuring(monkeypatch, lambda tokens: 1000 if tokens <= 2 * length else None)
    tokens = chosen(resolve_auto(packed, plan, SIZES))
    expected = [rows]
    while expected[-1] > 2:
        expected.append(-(-expected[-1] // 2))
    assert tried == [(number * length,) for number in expected]
    assert tokens == 2 * length


def test_memory_for_less_than_one_pair_is_refused(
    auto: Config, plan: EpochPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring(monkeypatch, lambda _: None)
    with pytest.raises(UserError, match=r"not even one pair of 32 .*batching\.max_source_length"):
        resolve_auto(auto, plan, SIZES)


def test_several_ranks_get_micro_batches_that_keep_them_busy(
    auto: Config, plan: EpochPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 200
    assert balanced_size(auto, plan, largest) == largest
    two = replace(auto, training=replace(auto.training, num_processes=2))
    tokens = balanced_size(two, plan, largest)
    assert auto.batching.longest <= tokens < largest
    assert replace(plan, max_micro_batch_tokens=largest).evenness(2) < 0.6
    assert replace(plan, max_micro_batch_tokens=tokens).evenness(2) > 0.8
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert balanced_size(auto, plan, largest) == tokens  # started by another launcher


def test_a_process_that_is_killed_is_out_of_memory_and_an_exception_is_an_error(
    auto: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that ends before it sends anything.
    process = Mock(exitcode=-9)
    context = Mock(Pipe=multiprocessing.Pipe, Process=lambda **_: process)
    monkeypatch.setattr(memory_probe.mp, "get_context", lambda _: context)
    assert measure_updates(auto, SIZES, [[(1, 2, 3)]]) is None
    process.exitcode = 1
    with pytest.raises(RuntimeError, match="has failed"):
        measure_updates(auto, SIZES, [[(1, 2, 3)]])


def test_only_errors_of_memory_are_reported_as_such(
    auto: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_probe, "limit_memory", lambda _: None)
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")):
        monkeypatch.setattr(memory_probe, "build_model", Mock(side_effect=error))
        sender = Mock()
        memory_probe._measure(sender, auto, SIZES, [])
        assert sender.send.mock_calls == [call(None)]
    error = RuntimeError("shapes do not match")
    monkeypatch.setattr(memory_probe, "build_model", Mock(side_effect=error))
    with pytest.raises(RuntimeError, match="shapes"):
        memory_probe._measure(sender, auto, SIZES, [])


def test_parallel_runs_share_the_memory(auto: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Mock(return_value=1_000)
    monkeypatch.setattr(memory_probe, "available_memory", shared)
    monkeypatch.setattr(memory_probe, "limit_memory", lambda _: None)
    monkeypatch.setattr(memory_probe, "build_model", Mock(side_effect=MemoryError()))
    for parallel_runs in (1, 3):
        config = replace(auto, run=replace(auto.run, parallel_runs=parallel_runs))
        memory_probe._measure(Mock(), config, SIZES, [])
    assert [each.args[1] for each in shared.mock_calls] == [1, 3]


@pytest.mark.slow
def test_updates_are_measured_in_a_process_of_their_own(tmp_path: Path) -> None:
    config = tiny_config(tmp_path)
    before = torch.get_rng_state()
    small, large = (measure_updates(config, SIZES, [[(rows, 20, 20)]] * 2) for rows in (1, 4000))
    assert small is not None
    assert large is not None
    assert large.fits
    assert large.peak > small.peak + 50_000_000
    assert large.gradient_seconds > small.gradient_seconds > 0
    assert large.step_seconds > 0
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
def test_updates_that_need_more_than_the_machine_has_are_out_of_memory(tmp_path: Path) -> None:
    """The limit of the process makes its allocations fail: the system need not kill it."""
    assert measure_updates(tiny_config(tmp_path), SIZES, [[(100_000_000, 30, 30)]]) is None


def test_auto_is_resolved_once_and_stored(
    auto: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    digit_corpus: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried = measuring(monkeypatch, lambda tokens: 900 if tokens <= 100 else 1100)
    with caplog.at_level(logging.INFO, logger="nmt"):
        found = [chosen(opening.open_run(auto, digit_corpus)) for _ in range(2)]
    assert 32 <= found[0] == found[1] <= 100
    assert "tokens: 0.00 of 0.00 GB: too much" in caplog.text
    number = len(tried)
    stored: Config = load_config(Config, auto.run_folder / "config.yaml")
    assert stored.batching.max_micro_batch_tokens == found[0]
    assert len(tried) == number
    other = replace(auto, training=replace(auto.training, label_smoothing=0.2))
    with pytest.raises(UserError, match="label_smoothing"):
        opening.open_run(other, digit_corpus)
