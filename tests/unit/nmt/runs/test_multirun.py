"""Runs of a sweep: failures, and GPUs that are not shared."""

import os
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
import ray
import torch

from nmt.base.errors import BusyError, FailedProcessesError, UserError
from nmt.base.files import read_json
from nmt.base.signals import Interruption
from nmt.config import Config
from nmt.runs import multirun
from nmt.runs.multirun import run_job
from nmt.runs.train import own_gpu
from tests.support import tiny_config
from tests.sweeps import add_run, swept_config


def raising(error: BaseException) -> NoReturn:
    raise error


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (UserError("first\nsecond"), ["first", "second"]),
        (FailedProcessesError(1), ["last line", "training has ended with status 1"]),
    ],
)
def test_a_failure_is_recorded_until_the_run_is_trained(
    error: BaseException, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.log").write_text("last line\n", encoding="utf-8")
    run_job(tmp_path, lambda: raising(error))
    assert read_json(tmp_path / "failure.json") == {"lines": lines}
    label = f"[{tmp_path.name}] "
    printed = [line.removeprefix(label) for line in capsys.readouterr().err.splitlines()]
    assert printed == [f"error: {tmp_path} has failed:", *lines]
    run_job(tmp_path, lambda: None)
    assert not (tmp_path / "failure.json").exists()


def test_the_end_of_a_long_log_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"line {number}" for number in range(50)]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    run_job(tmp_path, lambda: raising(FailedProcessesError(1)))
    printed = [line.rpartition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert printed[1:-1] == lines[-20:]
    assert printed[-1] == "training has ended with status 1"


def test_a_failed_dry_run_ends_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"the dry run of {tmp_path.name} has failed"):
        run_job(tmp_path, lambda: raising(UserError("too large")), is_dry_run=True)
    assert list(tmp_path.iterdir()) == []


def test_a_job_returns_the_metric_and_prints_one_line_of_a_complete_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = add_run(tmp_path / "model.dropout=0.1", swept_config(0.1, 1))
    assert run_job(run, lambda: 27.5) == 27.5
    bleu = read_json(run / "result.json")["valid"]["bleu"]
    scores = f"BLEU valid {bleu:.2f}, test {bleu - 1:.2f}"
    line = f"[dropout=0.1] {scores}; 0.3 minutes; {run}"
    assert capsys.readouterr().err.splitlines() == [line]


def test_a_mistake_in_the_program_is_recorded_with_its_traceback(tmp_path: Path) -> None:
    run_job(tmp_path, lambda: raising(ZeroDivisionError("oops")))
    first, *_, last = read_json(tmp_path / "failure.json")["lines"]
    assert first.startswith("Traceback")
    assert last == "ZeroDivisionError: oops"


def test_a_run_of_another_process_has_not_failed(tmp_path: Path) -> None:
    run_job(tmp_path, lambda: raising(BusyError("another process trains")))
    assert not (tmp_path / "failure.json").exists()


@pytest.mark.parametrize("error", [Interruption(2), SystemExit(130)])
def test_a_first_or_second_signal_ends_the_sweep(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)):
        run_job(tmp_path, lambda: raising(error))
    assert not (tmp_path / "failure.json").exists()


def test_a_run_on_ray_takes_its_cores_and_its_gpu_from_one_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = [{"CPU": 16}, {"CPU": 2, "GPU": 2}]
    monkeypatch.setattr(multirun, "connect_to_ray", lambda *_: None)
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": n} for n in nodes])
    with pytest.raises(UserError, match="that fit into the Ray cluster, 1: each takes 2 cores"):
        multirun._register_ray(2, 2)


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate two GPUs; return the folder of the lock files."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"uuid{index}")
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return tmp_path


def parallel(sweep: Path, parallel_runs: int = 2) -> Config:
    config = tiny_config(sweep)
    run = replace(config.run, parallel_runs=parallel_runs, folder=str(sweep / "seed=1"))
    return replace(config, run=run)


def test_runs_of_several_sweeps_have_gpus_of_their_own(two_gpus: Path) -> None:
    found = []
    with own_gpu(parallel(two_gpus / "rates")):
        found.append(os.environ["LOCAL_RANK"])
        with own_gpu(parallel(two_gpus / "sizes")):
            found.append(os.environ["LOCAL_RANK"])
    assert found == ["0", "1"]
    assert "LOCAL_RANK" not in os.environ


def test_a_run_waits_until_a_gpu_is_free(
    two_gpus: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    config = parallel(two_gpus)
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(own_gpu(config))
        second.enter_context(own_gpu(config))
        monkeypatch.setattr(time, "sleep", lambda seconds: first.close() if seconds >= 1 else None)
        with own_gpu(config):
            assert os.environ["LOCAL_RANK"] == "0"
    assert "all GPUs are used by other runs; waiting for one" in caplog.text


def test_more_parallel_runs_than_gpus_are_refused(two_gpus: Path) -> None:
    config = parallel(two_gpus, parallel_runs=3)
    with pytest.raises(UserError, match=r"runs=3 is more than the 2 GPUs .*; set"), own_gpu(config):
        pass
