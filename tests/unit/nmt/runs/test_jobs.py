"""Runs of a sweep: failures, and GPUs that are not shared."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.base.errors import BusyError, UserError
from nmt.base.files import read_json
from nmt.runs.jobs import own_gpu, run_job
from nmt.training.distributed import FailedProcessesError
from nmt.training.signals import Interruption
from tests.support import tiny_config


def raising(error: BaseException) -> None:
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
    assert "\n".join(["has failed:", *lines]) in capsys.readouterr().err
    run_job(tmp_path, lambda: None)
    assert not (tmp_path / "failure.json").exists()


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


def test_each_of_several_runs_has_its_own_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    config = tiny_config(tmp_path)
    config = replace(config, run=replace(config.run, parallel_runs=3))
    found = []
    with own_gpu(config):
        found.append(os.environ["LOCAL_RANK"])
        with own_gpu(config):
            found.append(os.environ["LOCAL_RANK"])
            with pytest.raises(UserError, match="more than the 2 GPUs"), own_gpu(config):
                pass
    assert found == ["0", "1"]
    assert "LOCAL_RANK" not in os.environ
