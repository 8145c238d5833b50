import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import SignalException

from nmt.base import system
from nmt.base.errors import UserError
from nmt.base.signals import Interruption
from nmt.config import TrainingConfig
from nmt.training import distributed
from nmt.training.distributed import Process


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_launcher_a_process_is_alone(alone: None) -> None:
    process = distributed.join(TrainingConfig(num_threads=1))
    assert (process.rank, process.world_size, process.is_main_process) == (0, 1, True)
    assert distributed.is_main_process()
    assert not distributed.is_launched()
    assert distributed.num_processes(TrainingConfig(num_processes=2)) == (2, 2)
    value = torch.tensor([1.5])
    assert process.all_reduce(value) is value
    assert process.broadcast("x") == "x"
    distributed.leave()


def test_the_environment_names_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "3", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert distributed.is_launched()
    assert not distributed.is_main_process()
    assert not Process(3, 16, torch.device("cpu")).is_main_process
    assert distributed.num_processes(TrainingConfig(num_processes=2)) == (16, 8)


@pytest.mark.parametrize(
    ("name", "value"), [("MASTER_ADDR", ""), ("MASTER_PORT", "http"), ("RANK", "-1"), ("RANK", "")]
)
def test_an_incomplete_launcher_is_reported(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for number in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.setenv(number, "1")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    distributed.check_launcher()
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"{name}={value} is not valid; .* unset RANK"):
        distributed.check_launcher()


def test_threads_are_shared_among_local_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
    assert distributed.threads_per_process(0, 1) == 6
    assert distributed.threads_per_process(0, 2) == 3
    assert distributed.threads_per_process(0, 8) == 1
    assert distributed.threads_per_process(5, 2) == 5


@pytest.mark.parametrize(
    ("threads", "processes", "idle", "used", "is_warned"),
    [
        (0, 1, 5.8, 6, False),
        (0, 1, 1.6, 2, True),
        (0, 4, 6.0, 1, False),
        (0, 2, 0.1, 1, True),
        (2, 2, 4.2, 2, False),
        (2, 2, 2.7, 2, True),
        (8, 1, 6.0, 8, False),
        (1, 1, 0.1, 1, False),  # one thread does not wait for others
    ],
)
def test_training_uses_idle_cores_and_more_threads_than_those_are_warned_of(
    alone: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    threads: int,
    processes: int,
    idle: float,
    used: int,
    is_warned: bool,
) -> None:
    monkeypatch.setattr(distributed, "num_cores", lambda: 6)
    monkeypatch.setattr(distributed, "idle_cores", lambda: idle)
    asked = TrainingConfig(num_threads=threads, num_processes=processes)
    assert distributed.with_num_threads(asked).num_threads == used
    assert (f"only {idle:.1f} of 6 CPU cores are idle" in caplog.text) == is_warned


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/stat is Linux's")
def test_idle_cores_of_this_process_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hertz = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    clock = iter((100.0, 102.0))
    monkeypatch.setattr(system, "_CPU_TIMES", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    monkeypatch.setattr(distributed.time, "monotonic", lambda: next(clock))

    def write(idle: int, waiting: int) -> None:
        lines = (f"cpu{core} 9 9 9 {idle} {waiting} 9 9 9 0 0" for core in ("", 0, 1, 2))
        stat.write_text("\n".join(lines) + "\nintr 1\n", encoding="utf-8")

    write(0, 0)
    # In two seconds two of three cores were idle for one second, and waited for half a second.
    monkeypatch.setattr(distributed.time, "sleep", lambda _: write(hertz, hertz // 2))
    assert system.idle_cores() == 1.5


def test_a_lost_connection_is_described_in_one_line() -> None:
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    advice = " [10.77.0.2]:30859. This is typically caused by a crash."
    told = "Connection closed by peer [10.77.0.2]:30859"
    assert distributed.lost_connection(RuntimeError(gloo + advice)) == told
    assert (
        distributed.lost_connection(torch.distributed.DistNetworkError("gone\nframe #0")) == "gone"
    )
    assert distributed.lost_connection(RuntimeError("shapes differ")) == ""
    assert distributed.lost_connection(ValueError()) == ""


@pytest.mark.slow
def test_two_processes_agree(two_processes_found: Any) -> None:
    for rank, found in enumerate(two_processes_found.ranks):
        assert found["process"] == (rank, 2)
        assert found["all_reduce"] == [3, 20]
        assert found["broadcast"] == {"rank": 0}
        assert found["is_main_process"] is (rank == 0)
        assert found["is_launched"]


@pytest.mark.slow
def test_signals_mean_after_a_launch_what_they_meant_before(two_processes_found: Any) -> None:
    assert two_processes_found.handlers_after == two_processes_found.handlers_before


def test_a_signal_that_interrupts_cleanup_of_torch_elastic_is_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> NoReturn:
        try:
            raise SignalException("", signal.SIGTERM)
        finally:
            raise UnboundLocalError("start")

    monkeypatch.setattr(distributed, "elastic_launch", lambda *_: interrupted)
    with pytest.raises(Interruption) as caught:
        distributed.launch(TrainingConfig(num_processes=2), print)
    assert caught.value.signal_number == signal.SIGTERM
