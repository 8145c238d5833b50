"""Failures of one process of several: exception, no memory, NaN, kill, exit; used by soak.py."""

import contextlib
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from nmt.data.loader import UpdateWork
from nmt.training import distributed
from nmt.training.trainer import Trainer
from nmt.training.updater import Gradient, Updater


class InjectedError(Exception):
    """Failure injected into a process."""


def fork_workers() -> None:
    """Make the launcher fork its workers, so that they inherit imports and patches."""
    module: Any = distributed
    original = module.LaunchConfig
    module.LaunchConfig = lambda **named: original(**{**named, "start_method": "fork"})


def _raise_exception() -> None:
    raise InjectedError("injected")


def _raise_out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Injected.")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit() -> None:
    sys.exit(3)


# Failures that end training on all processes, before or after the gradient is computed.
_ENDING: dict[str, Callable[[], None]] = {
    "an exception": _raise_exception,
    "out of memory": _raise_out_of_memory,
    "killed": _kill,
    "exits alone": _exit,
}


@contextlib.contextmanager
def _nan_gradient(trainer: Trainer) -> Iterator[None]:
    weight = trainer.model.network.output_weight
    spoil = weight.register_hook(lambda gradient: gradient * math.nan)  # type: ignore[no-untyped-call]
    yield
    spoil.remove()


@contextlib.contextmanager
def _memory_runs_out(trainer: Trainer) -> Iterator[None]:
    """Run out of memory in the backward pass of the first micro-batch of this process."""
    transformer = trainer.model.network
    forward = transformer.forward

    def failing(*inputs: torch.Tensor) -> torch.Tensor:
        hidden = forward(*inputs)
        hidden.register_hook(lambda _: _raise_out_of_memory())  # type: ignore[no-untyped-call]
        return hidden

    transformer.forward = failing  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del transformer.forward


NAN_GRADIENT = "a NaN gradient"
MEMORY_RUNS_OUT = "out of memory in a micro-batch"

# Failures while a gradient is computed.
_PASSING = {NAN_GRADIENT: _nan_gradient, MEMORY_RUNS_OUT: _memory_runs_out}

FAILURES = (*_ENDING, *_PASSING)


def survives(failure: str) -> bool:
    """Return whether training has to continue without a restart after this failure."""
    return failure == NAN_GRADIENT


def inject_failure(name: str, rank: int, update: int, random: Random) -> None:
    """Patch this program so that process `rank` fails once in an update after `update`.

    It does not fail again after a restart by the launcher, or when the update is repeated.
    """
    ends = _ENDING.get(name)
    ends_before, ends_after = (ends, None) if random.random() < 0.5 else (None, ends)
    gradient = Updater.gradient
    trainers: list[Trainer] = []
    left = [name]
    start = Trainer.__init__

    def started(trainer: Trainer, *arguments: Any, **named: Any) -> None:
        start(trainer, *arguments, **named)
        trainers[:] = [trainer]

    def failing(updater: Updater, work: UpdateWork, before_round: Callable[[], None]) -> Gradient:
        trainer = trainers[0]
        if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
            left.clear()
        is_due = trainer.process.rank == rank and trainer.state.update >= update
        # A process without a micro-batch in this update cannot fail in one.
        if not (left and is_due and work.micro_batches):
            return gradient(updater, work, before_round)
        left.clear()
        if ends_before is not None:
            ends_before()
        with _PASSING[name](trainer) if name in _PASSING else contextlib.nullcontext():
            found = gradient(updater, work, before_round)
        if ends_after is not None:
            ends_after()
        return found

    Trainer.__init__ = started  # type: ignore[method-assign,assignment]
    Updater.gradient = failing  # type: ignore[method-assign,assignment]
