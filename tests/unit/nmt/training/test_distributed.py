import os
import threading
from datetime import timedelta
from typing import Any

import pytest
import torch

from nmt.config import TrainingConfig
from nmt.training import distributed
from nmt.training.distributed import Process


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def same_threads() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_without_a_launcher_a_process_is_alone(alone: None) -> None:
    process = distributed.join(TrainingConfig(num_threads=1))
    assert (process.rank, process.world_size, process.is_first) == (0, 1, True)
    assert distributed.is_first()
    assert not distributed.launched_by_cluster()
    value = torch.tensor([1.5])
    assert process.sum(value) is value
    assert process.from_first("x") == "x"
    distributed.leave()


def test_threads_are_shared_among_local_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(6), raising=False)
    assert distributed.threads_per_process(0, 1) == 6
    assert distributed.threads_per_process(0, 2) == 3
    assert distributed.threads_per_process(0, 8) == 1
    assert distributed.threads_per_process(5, 2) == 5


def test_the_environment_names_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert distributed.launched_by_cluster()
    assert not distributed.is_first()
    assert not Process(3, 4, torch.device("cpu")).is_first


def test_a_launcher_knows_how_many_processes_there_are(
    alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = TrainingConfig(num_processes=2, num_hosts=3, rendezvous="a:1")
    assert distributed.num_processes(training) == (6, 2)  # what we shall launch ourselves
    for name, value in {"RANK": "0", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    assert distributed.num_processes(training) == (16, 8)


class Store:
    """Has counted so many failures; behind a cut network it never says so."""

    def __init__(self, num_failures: int, is_reached: bool = True) -> None:
        self.num_failures = num_failures
        self.is_reached = is_reached

    def add(self, name: str, count: int) -> int:
        assert name == "failures"
        if not self.is_reached:
            threading.Event().wait()
        return self.num_failures + count


@pytest.mark.parametrize(
    ("store", "expected"),
    [(None, True), (Store(0), True), (Store(1), False), (Store(1, is_reached=False), True)],
    ids=["alone", "first", "second", "cut off"],
)
def test_who_fails_first_is_told_by_the_store(
    store: Store | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "_store", store)
    monkeypatch.setattr(distributed, "_PATIENCE", timedelta(seconds=0.1))
    assert distributed.first_to_fail() is expected


def test_a_loss_is_told_in_one_line() -> None:
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    advice = " [10.77.0.2]:30859. This is typically caused by a crash."
    told = "Connection closed by peer [10.77.0.2]:30859"
    assert distributed.how_lost(RuntimeError(gloo + advice)) == told
    assert distributed.how_lost(torch.distributed.DistNetworkError("gone\nframe #0")) == "gone"
    assert distributed.how_lost(RuntimeError("shapes differ")) == ""
    assert distributed.how_lost(ValueError()) == ""


@pytest.mark.slow
def test_two_processes_agree(two_processes_found: Any) -> None:
    for rank, found in enumerate(two_processes_found.ranks):
        assert found["process"] == (rank, 2)
        assert found["sum"] == [3, 20]
        assert found["from_first"] == {"rank": 0}
        assert found["is_first"] is (rank == 0)
        assert found["launched_by_cluster"]


@pytest.mark.slow
def test_signals_mean_after_a_launch_what_they_meant_before(two_processes_found: Any) -> None:
    assert two_processes_found.handlers_after == two_processes_found.handlers_before
