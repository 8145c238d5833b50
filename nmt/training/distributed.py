"""Data-parallel training: process group, collectives, and launching processes on one host.

On several hosts, `torchrun` launches the processes, and sets RANK and other variables.
"""

import atexit
import gc
import logging
import multiprocessing
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from nmt.base.errors import FailedProcessesError, UserError, first_line
from nmt.base.signals import REQUESTS, Interruption, handlers_restored, is_ignored
from nmt.base.system import idle_cores, num_cores, signal_at_death_of_parent
from nmt.config import TrainingConfig

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# The main process may validate or translate for hours while the others wait for its broadcast.
_UNLIMITED = timedelta(days=365)

# When a process fails, the launcher ends the others within this time. A process that loses its
# connection waits this long before it reports that, so that only the cause is reported.
_SECONDS_TO_BE_ENDED = 3.0

_waiting_group: Any = None  # gloo, without a timeout; torch's default group is global, too


@dataclass(frozen=True)
class Process:
    """One process of a training: `rank` is from 0 to `world_size` - 1."""

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main_process(self) -> bool:
        """Whether this process validates and writes files."""
        return self.rank == 0

    def all_reduce(self, value: torch.Tensor) -> torch.Tensor:
        """Return the sum of a tensor over all ranks."""
        if self.world_size > 1:
            value = value.clone()
            dist.all_reduce(value)
        return value

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set on any rank; the CPUs add flags, so no GPU has to wait."""
        return bool(self.all_reduce(torch.tensor(int(flag))))

    def broadcast(self, value: Value | None) -> Value:
        """Return the main process's value on all ranks, which wait for it without a timeout."""
        box = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(box, src=0, group=_waiting_group)
        return box[0]  # type: ignore[return-value]

    def barrier(self) -> None:
        """Wait, without a timeout, until all ranks get here."""
        if self.world_size > 1:
            dist.barrier(group=_waiting_group)


class LostProcessError(Exception):
    """The connection to another process was lost."""


def is_launched() -> bool:
    """Return whether torch elastic started this process."""
    return "RANK" in os.environ


def check_launcher() -> None:
    """Raise UserError if RANK is set, but not the other variables that a launcher sets."""
    numbers = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
    for name in (*numbers, "MASTER_ADDR"):
        value = os.environ.get(name, "")
        if not value or (name in numbers and not value.isdecimal()):
            raise UserError(
                f"the environment variable RANK is set, as by torchrun, but {name}={value} is not"
                " valid; start with torchrun, or unset RANK"
            )


def is_main_process() -> bool:
    """Return whether the environment gives this process rank 0, or no rank."""
    return os.environ.get("RANK", "0") == "0"


def num_processes(training: TrainingConfig) -> tuple[int, int]:
    """Return the number of processes of a training: in all, and on this host."""
    if not is_launched():
        return training.num_processes, training.num_processes
    return int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def threads_per_process(num_threads: int, num_processes: int) -> int:
    """Return `num_threads`, or an equal share of the available cores if it is 0."""
    return num_threads or max(1, num_cores() // num_processes)


def with_num_threads(training: TrainingConfig, parallel_runs: int = 1) -> TrainingConfig:
    """Replace `num_threads=0` by an equal share of the cores that are idle now.

    Each of several `parallel_runs` on this machine gets an equal share of all cores. Under
    `torchrun`, nothing is replaced.

    Threads that wait for a core slow all others down: on two cores, one of them busy, two threads
    train at a third of the speed of one. Warn if fewer cores are idle than asked for, or than all.
    """
    if parallel_runs > 1:
        threads = threads_per_process(training.num_threads, parallel_runs)
        return replace(training, num_threads=threads)
    asked = training.num_threads * training.num_processes
    if asked == 1 or is_launched():  # one thread waits for no other
        return training
    idle = idle_cores()
    threads = training.num_threads or max(1, round(idle) // training.num_processes)
    cores = num_cores()
    if round(idle) < min(asked or cores, cores):
        logger.warning(
            f"only {idle:.1f} of {cores} CPU cores are idle: training will be slow while other"
            f" programs run; it uses training.num_threads={threads}"
        )
    return replace(training, num_threads=threads)


def local_device() -> torch.device:
    """Return the GPU of this rank, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def join(training: TrainingConfig) -> Process:
    """Join the process group of the launcher; without a launcher, this is the only process."""
    global _waiting_group  # noqa: PLW0603
    world_size, local_world_size = num_processes(training) if is_launched() else (1, 1)
    torch.set_num_threads(threads_per_process(training.num_threads, local_world_size))
    device = local_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if world_size > 1 and not dist.is_initialized():
        # Gloo exchanges flags and objects, even if NCCL exchanges gradients.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=training.timeout))
        _waiting_group = dist.new_group(backend="gloo", timeout=_UNLIMITED)
    return Process(int(os.environ.get("RANK", "0")), world_size, device)


def leave() -> None:
    """Undo `join`."""
    if dist.is_initialized():
        dist.destroy_process_group()


@contextmanager
def joined(training: TrainingConfig) -> Iterator[Process]:
    """Join the process group for the block; at its end, wait for all ranks and leave the group."""
    process = join(training)
    try:
        yield process
    except Interruption:
        # All ranks have agreed to end, so none is in a collective that `leave` would wait for.
        # After any other error, some ranks may be in one.
        leave()
        raise
    process.barrier()
    leave()


@contextmanager
def failures_in_order() -> Iterator[None]:
    """Delay errors that follow from another process's failure, or that all processes raise.

    If another process on this host has failed, the launcher ends this one during the delay, so that
    only the first error is reported.

    Raises:
        LostProcessError: the connection to another process was lost.
    """
    try:
        yield
    except Exception as error:
        if not is_launched():
            raise
        if reason := lost_connection(error):
            time.sleep(_SECONDS_TO_BE_ENDED)
            rank = os.environ["RANK"]
            raise LostProcessError(f"process {rank} lost another process: {reason}") from None
        if not is_main_process():
            time.sleep(_SECONDS_TO_BE_ENDED / 3)
        raise


def lost_connection(error: Exception) -> str:
    """Return the reason of a lost connection in one line; "" for other errors."""
    line = first_line(error)
    if not isinstance(error, dist.DistError) and "gloo" not in line:
        return ""
    # Remove the position in gloo's source code, and its advice.
    return re.sub(r"\[\S*gloo\S*\]\s*", "", line).partition(". ")[0]


def launch(training: TrainingConfig, work: Callable[..., object], *arguments: Any) -> None:
    """Run `work(*arguments)` in `training.num_processes` processes of this host.

    If one fails, torch elastic restarts all of them, at most `training.max_restarts` times. After a
    UserError, all of them end.

    Raises:
        Interruption: a signal arrived; the processes have ended.
        FailedProcessesError: the processes have failed and reported why.
    """
    # With a shared store, a restart would read the addresses of the previous start.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=training.num_processes,
        run_id="nmt",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=training.max_restarts,
        signals_to_handle=",".join(one.name for one in REQUESTS if not is_ignored(one)),
        logs_specs=DefaultLogsSpecs(os.devnull),  # otherwise, each launch leaves a folder in /tmp
    )
    for library in ("torch.distributed.elastic", "torch.multiprocessing"):  # we report failures
        log = logging.getLogger(library)
        log.handlers, log.propagate = [logging.NullHandler()], False
    user_error = multiprocessing.get_context("spawn").Event()
    try:
        with handlers_restored():  # torch elastic installs its own
            elastic_launch(config, _begin)(user_error, os.getpid(), work, *arguments)
    except ChildFailedError as error:
        for failure in error.failures.values():
            if failure.exitcode < 0:
                logger.error(
                    f"process {failure.local_rank} was killed by {failure.signal_name()}"
                    " (SIGKILL often means that memory is out)"
                )
        logger.error("training has ended on all processes; the same command continues it")
        raise FailedProcessesError(1) from None
    except Exception as error:
        # A signal raises SignalException wherever it interrupts torch elastic, whose own `finally`
        # clauses may then fail with another exception.
        stopped: BaseException | None = error
        while stopped is not None and not isinstance(stopped, SignalException):
            stopped = stopped.__context__
        if stopped is None:
            raise
        for worker in multiprocessing.active_children():
            worker.kill()  # alive only after a second Ctrl-C
        if user_error.is_set():
            raise FailedProcessesError(UserError.exit_status) from None
        raise Interruption(stopped.sigval.value) from None


def _begin(user_error: Event, launcher: int, work: Callable[..., object], *arguments: Any) -> None:
    """Set up a launched process and run `work(*arguments)` in it."""
    # Gloo would use the address of the host's name, which may lead nowhere.
    loopback = [name for _, name in socket.if_nameindex() if name.startswith("lo")]
    if loopback:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback[0])
    # Leave the process group to which a terminal sends Ctrl-C; the launcher passes it on.
    os.setpgid(0, 0)
    # A process that outlives a killed launcher would write to the files of the next run.
    signal_at_death_of_parent(signal.SIGKILL)
    atexit.register(gc.freeze)  # see nmt/__main__.py
    if os.getppid() != launcher:
        raise RuntimeError("the launcher of this process has ended")
    try:
        work(*arguments)
    except SystemExit as error:
        if error.code == UserError.exit_status:  # a restart would not help: end all processes
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            user_error.set()
            os.kill(launcher, signal.SIGTERM)
        raise
