import os
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


@pytest.mark.slow
def test_two_processes_agree(two_processes_found: Any) -> None:
    for rank, found in enumerate(two_processes_found.ranks):
        assert found["process"] == (rank, 2)
        assert found["sum"] == [3, 20]
        assert found["from_first"] == {"rank": 0}
        assert found["is_first"] is (rank == 0)
        assert found["launched_by_cluster"]
