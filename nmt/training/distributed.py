"""Processes of one training: who am I, how do we agree, how are we launched."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

Value = TypeVar("Value")

# Rank 0 validates alone while the others wait in a collective.
_TIMEOUT = timedelta(hours=2)


@dataclass(frozen=True)
class Process:
    """This process among those that train together.

    Attributes:
        rank: 0 to world_size - 1; rank 0 validates and writes.
        world_size: number of processes.
        device: where this process computes.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process validates and writes."""
        return self.rank == 0

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of a tensor over all processes, on all of them."""
        if self.world_size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def from_first(self, value: Value | None) -> Value:
        """Rank 0's value, on all processes."""
        box = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(box, src=0, device=self.device)
        assert box[0] is not None
        return box[0]


def launched_by_cluster() -> bool:
    """Whether torchrun or the like started us as one of its workers."""
    return "RANK" in os.environ


def join(num_threads: int) -> Process:
    """Become one of the processes that the environment names, or the only one.

    Args:
        num_threads: CPU threads of this process; 0 shares the cores among the local processes.
    """
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(threads_per_process(num_threads, local_processes))
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    if world_size > 1 and not dist.is_initialized():
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=_TIMEOUT)
    return Process(rank, world_size, device)


def threads_per_process(num_threads: int, num_processes: int) -> int:
    """`num_threads`, or where that is 0 a fair share of the cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return num_threads or max(1, (cores or 1) // num_processes)


def leave() -> None:
    """Undo `join`."""
    if dist.is_initialized():
        dist.destroy_process_group()


def launch(num_processes: int, work: Callable[..., Any], *arguments: Any) -> None:
    """Run `work(*arguments)` in so many processes of this machine, by torch elastic.

    `work` has to be importable (a function of a module): the processes are fresh.
    """
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id="nmt",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        start_method="spawn",
    )
    elastic_launch(config, work)(*arguments)


def is_first() -> bool:
    """Whether the environment names this process rank 0, or names none."""
    return os.environ.get("RANK", "0") == "0"
