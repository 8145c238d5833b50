"""Processes of one training: who am I, how do we agree, how are we launched."""

import contextlib
import ctypes
import itertools
import logging
import os
import platform
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.elastic.rendezvous import RendezvousError, RendezvousTimeoutError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from nmt.config import TrainingConfig
from nmt.errors import UserError
from nmt.processor import num_cores
from nmt.training import network
from nmt.training.signals import handlers_put_back

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# How often who waits for the first process looks whether it is still reached.
_LOOK_AGAIN = timedelta(seconds=1)

# How long who fails, or leaves, waits for the others' store, which may be gone with its host.
_PATIENCE = timedelta(seconds=5)

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
    store, places = _store, list[int]()

    def ask() -> None:
        with contextlib.suppress(dist.DistError):
            places.append(store.add("failures", 1))

    if store is not None:
        # Behind a cut network the question has no end of its own.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(_PATIENCE.total_seconds())
    return places in ([], [1])  # without an answer nobody else can tell


def how_lost(error: Exception) -> str:
    """How another process was lost, in one line; empty when an error is about something else."""
    line = str(error).partition("\n")[0]
    if not isinstance(error, dist.DistError) and "gloo" not in line:
        return ""
    # Without the place in gloo's own source, and its advice.
    return re.sub(r"\[\S*gloo\S*\]\s*", "", line).partition(". ")[0]


def num_restarts_left() -> int:
    """How often the launcher would start this process again."""
    names = "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RESTART_COUNT"
    most, count = (int(os.environ.get(name, "0")) for name in names)
    return most - count


def launched_by_cluster() -> bool:
    """Whether torchrun or the like started us as one of its workers."""
    return "RANK" in os.environ


def num_processes(training: TrainingConfig) -> tuple[int, int]:
    """How many processes train together, and how many of them on this host.

    A launcher that has made us knows; else it is what `launch` will make.
    """
    if not launched_by_cluster():
        return training.num_processes * training.num_hosts, training.num_processes
    names = "WORLD_SIZE", "LOCAL_WORLD_SIZE"
    world_size, local_processes = (int(os.environ.get(name, "1")) for name in names)
    return world_size, local_processes


def join(training: TrainingConfig) -> Process:
    """Become one of the processes that the environment names, or the only one."""
    rank, local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "LOCAL_RANK"))
    world_size, local_processes = num_processes(training) if launched_by_cluster() else (1, 1)
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
        if os.environ.get("GROUP_WORLD_SIZE") == "1":
            # The launcher keeps one store over its restarts; no name is to be met a second time.
            start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = dist.PrefixStore(f"start {start}", store)  # type: ignore[attr-defined]
        dist.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=timeout
        )
        global _store  # noqa: PLW0603
        _store = dist.PrefixStore("nmt", store)  # type: ignore[attr-defined]
    return Process(rank, world_size, device)


def threads_per_process(num_threads: int, num_processes: int) -> int:
    """`num_threads`, or where that is 0 a fair share of the cores this process may use."""
    return num_threads or max(1, num_cores() // num_processes)


def leave() -> None:
    """Undo `join`. The first process leaves last: the store may be its own."""
    global _store  # noqa: PLW0603
    if _store is not None:
        with contextlib.suppress(dist.DistError):  # the others have left in another way
            if _store.add("left", 1) == dist.get_world_size():
                _store.set("all left", "")
            if dist.get_rank() == 0:
                _store.wait(["all left"], _PATIENCE)
    _store = None
    if dist.is_initialized():
        dist.destroy_process_group()


def launch(
    training: TrainingConfig,
    name: str,
    work: Callable[..., Any],
    *arguments: Any,
    give_up: Callable[[str], object],
) -> None:
    """Run `work(*arguments)` in the processes of this machine, by torch elastic.

    With `training.num_hosts` above 1 the same command has to be given on each host.
    `work` has to be importable (a function of a module): the processes are fresh.

    Args:
        name: of the run; only hosts with the same one meet.
        give_up: is called from another thread, with a message, when the rendezvous has been out
            of reach for `training.rendezvous_timeout`; it has to end this process.

    Raises:
        UserError: the hosts did not meet, or have lost each other for good.
    """
    host, port = training.meeting_place
    seconds = training.rendezvous_timeout
    own = network.own_address(host)
    # Where we are not the rendezvous's host ourselves, our address is the one that leads there.
    address = host if own else network.wait_until_reached(host, port, seconds)
    if training.num_hosts > 1:
        # One store for all restarts is not found by a host that comes back with a new launcher.
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        logger.info("meeting at %s: %d hosts", training.rendezvous, training.num_hosts)
    config = _launch_config(training, name, address, bool(own))
    # Its own account of a failure would come before that of the process that failed.
    for library in ("torch.distributed.elastic", "torch.multiprocessing"):
        account = logging.getLogger(library)
        account.handlers, account.propagate = [logging.NullHandler()], False
    watch = network.watched(host, port, seconds, give_up)
    try:
        # Torch elastic takes the signals, and keeps them.
        with contextlib.nullcontext() if own else watch, handlers_put_back():
            interface = network.interface_of(own or address)
            elastic_launch(config, _begin)(work, os.getpid(), interface, *arguments)
    except RendezvousTimeoutError:
        raise UserError(
            f"training.num_hosts={training.num_hosts} hosts have not met at"
            f" training.rendezvous={training.rendezvous} within {seconds:g} seconds"
            " (training.rendezvous_timeout): give the same command on each of them"
        ) from None
    except (RendezvousError, dist.DistError):
        raise UserError(
            f"the rendezvous at training.rendezvous={training.rendezvous} has ended, or its host"
            " is lost: give the same command on each host, and the run continues"
        ) from None


def _launch_config(
    training: TrainingConfig, name: str, address: str, is_meeting_place: bool
) -> LaunchConfig:
    """What torch elastic has to know on a host with this address."""
    seconds = int(training.rendezvous_timeout)
    _, port = training.meeting_place
    return LaunchConfig(
        min_nodes=training.num_hosts,
        max_nodes=training.num_hosts,
        nproc_per_node=training.num_processes,
        run_id=name,
        rdzv_backend="c10d",
        # Left to itself, torch tells by the host's name who keeps the store, and may be wrong.
        rdzv_endpoint=f"localhost:{port}" if is_meeting_place else training.rendezvous,
        rdzv_configs={
            "join_timeout": seconds,
            "read_timeout": seconds,
            **({} if is_meeting_place else {"is_host": False}),
        },
        local_addr=address,
        max_restarts=training.max_restarts,
        start_method="spawn",
    )


def _begin(work: Callable[..., Any], launcher: int, interface: str, *arguments: Any) -> None:
    """A worker's first steps: it gets signals from the launcher alone, and dies with it."""
    if interface:
        # Gloo would take the address that the host's name stands for, often a loopback one.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
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
