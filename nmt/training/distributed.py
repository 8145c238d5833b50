"""Processes of one training: who am I, how do we agree, how are we launched."""

import contextlib
import ctypes
import itertools
import logging
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from nmt.config import TrainingConfig
from nmt.errors import UserError

Value = TypeVar("Value")

# How often who waits for the first process looks whether it is still reached.
_LOOK_AGAIN = timedelta(seconds=1)

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


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

    def begin_sum(self, value: torch.Tensor) -> Callable[[], object]:
        """Begin to sum a tensor in place over all processes; call what comes back to wait for it.

        All processes have to begin the same sums in the same order.
        """
        assert self.world_size > 1, "there is nobody to sum with"
        work = dist.all_reduce(value, async_op=True)
        assert work is not None
        wait: Callable[[], object] = work.wait
        return wait

    def any(self, flag: bool) -> bool:
        """Whether any process says so; all have to ask. It does not wait for a GPU."""
        return bool(self.sum(torch.tensor(int(flag)))) if self.world_size > 1 else flag

    def from_first(self, value: Value | None) -> Value:
        """Rank 0's value, on all processes."""
        box = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        assert box[0] is not None
        return box[0]

    def from_all(self, value: Value) -> list[Value]:
        """The value of each process, by rank, on all of them."""
        values: list[Any] = [value] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(values, value)
        return values

    def wait_for_first(self) -> None:
        """Wait until the first process gets here, however long it takes.

        Collectives give up after `training.timeout`; what the first process does alone may take
        longer.
        """
        if self.world_size == 1:
            return
        assert _store is not None, "join() comes first"
        place = f"place {next(_places)}"
        if self.is_first:
            _store.set(place, "reached")
            return
        while True:
            with contextlib.suppress(dist.DistStoreError):  # not there yet
                _store.wait([place], _LOOK_AGAIN)
                return


# Torch's own process group is one a process, too.
_store: Any = None
_places = itertools.count()  # all processes count the same


def first_to_fail() -> bool:
    """Whether no other process of this training has failed before; asked once, by who fails.

    Those that fail because another one is gone ask later, as connections stay open until then.
    """
    if _store is None:
        return True
    try:
        return bool(_store.add("failures", 1) == 1)
    except dist.DistError:  # the store has gone with its host: nobody else can tell
        return True


def launched_by_cluster() -> bool:
    """Whether torchrun or the like started us as one of its workers."""
    return "RANK" in os.environ


def join(training: TrainingConfig) -> Process:
    """Become one of the processes that the environment names, or the only one."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    torch.set_num_threads(threads_per_process(training.num_threads, local_processes))
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
    if world_size > 1 and not dist.is_initialized():
        # Agreements go by gloo also where gradients go by nccl: they must not wait for the GPU.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        timeout = timedelta(seconds=training.timeout)
        store, rank, world_size = next(iter(rendezvous("env://", timeout=timeout)))
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=timeout
        )
        global _store  # noqa: PLW0603
        _store = dist.PrefixStore("nmt", store)  # type: ignore[attr-defined]
    return Process(rank, world_size, device)


def threads_per_process(num_threads: int, num_processes: int) -> int:
    """`num_threads`, or where that is 0 a fair share of the cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return num_threads or max(1, (cores or 1) // num_processes)


def leave() -> None:
    """Undo `join`."""
    global _store  # noqa: PLW0603
    _store = None
    if dist.is_initialized():
        dist.destroy_process_group()


def launch(training: TrainingConfig, work: Callable[..., Any], *arguments: Any) -> None:
    """Run `work(*arguments)` in the processes of this machine, by torch elastic.

    With `training.num_hosts` above 1 the same command has to be given on each host.
    `work` has to be importable (a function of a module): the processes are fresh.
    """
    config = LaunchConfig(
        min_nodes=training.num_hosts,
        max_nodes=training.num_hosts,
        nproc_per_node=training.num_processes,
        run_id="nmt",
        rdzv_backend="c10d",
        rdzv_endpoint=training.rendezvous or "localhost:0",
        max_restarts=training.max_restarts,
        start_method="spawn",
    )
    # Its own account of a failure would come before that of the process that failed.
    for name in logging.root.manager.loggerDict:
        if name.startswith(("torch.distributed.elastic", "torch.multiprocessing")):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    elastic_launch(config, _begin)(work, os.getpid(), *arguments)


def _begin(work: Callable[..., Any], launcher: int, *arguments: Any) -> None:
    """A worker's first steps: it gets signals from the launcher alone, and dies with it."""
    # A terminal's Ctrl-C goes to the launcher's group; the launcher counts key presses.
    os.setpgid(0, 0)
    if platform.system() == "Linux":
        # A worker that outlived a killed launcher would write where the next run does.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != launcher:
        raise UserError("the launcher of this process is gone")
    work(*arguments)


def is_first() -> bool:
    """Whether the environment names this process rank 0, or names none."""
    return os.environ.get("RANK", "0") == "0"
