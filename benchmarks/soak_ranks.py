"""Trouble on one of several processes: an exception, no memory, no number, a kill, an exit.

Used by benchmarks/soak.py.
"""

import contextlib
import math
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from nmt.data.loader import UpdateWork
from nmt.training import distributed
from nmt.training.trainer import Trainer
from nmt.training.updater import Gradient, Updater


class MadeUpError(Exception):
    """The exception that a process is given."""


def fork_workers() -> None:
    """Let the launcher fork its workers: what is imported and patched here is so there."""
    module: Any = distributed
    original = module.LaunchConfig
    module.LaunchConfig = lambda **named: original(**{**named, "start_method": "fork"})


def _raise_exception() -> None:
    raise MadeUpError("made up")


def _raise_out_of_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Made up.")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit() -> None:
    sys.exit(3)


# What ends training on all processes, raised before or after the gradient of an update is made.
_ENDING: dict[str, Callable[[], None]] = {
    "an exception": _raise_exception,
    "out of memory": _raise_out_of_memory,
    "killed": _kill,
    "exits alone": _exit,
}


@contextlib.contextmanager
def _no_number(trainer: Trainer) -> Iterator[None]:
    weight = trainer.model.transformer.output_weight
    spoil = weight.register_hook(lambda gradient: gradient * math.nan)  # type: ignore[no-untyped-call]
    yield
    spoil.remove()


@contextlib.contextmanager
def _memory_runs_out(trainer: Trainer) -> Iterator[None]:
    """In the backward pass of this process's first micro-batch."""
    transformer = trainer.model.transformer
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


# What training lives through, while the gradient of an update is made.
_PASSING = {"no number": _no_number, "out of memory in a micro-batch": _memory_runs_out}

TROUBLES = (*_ENDING, *_PASSING)


def is_lived_through(trouble: str) -> bool:
    """Whether training is to go on by itself."""
    return trouble in _PASSING


def make_trouble(name: str, rank: int, update: int, chance: random.Random) -> None:
    """Patch this program so that process `rank` gets into trouble in the update after `update`.

    It does so once: started again by the launcher, it is left alone, and so is an update that is
    made again.
    """
    ends = _ENDING.get(name)
    ends_before, ends_after = (ends, None) if chance.random() < 0.5 else (None, ends)
    gradient = Updater.gradient
    trainers: list[Trainer] = []
    left = [name]
    start = Trainer.__init__

    def started(trainer: Trainer, *arguments: Any, **named: Any) -> None:
        start(trainer, *arguments, **named)
        trainers[:] = [trainer]

    def troubled(updater: Updater, work: UpdateWork, before_each: Callable[[], None]) -> Gradient:
        trainer = trainers[0]
        if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
            left.clear()
        is_due = trainer.process.rank == rank and trainer.progress.update >= update
        # A process with no micro-batch of an update cannot fail in one.
        if not (left and is_due and work.micro_batches):
            return gradient(updater, work, before_each)
        left.clear()
        if ends_before is not None:
            ends_before()
        with _PASSING[name](trainer) if name in _PASSING else contextlib.nullcontext():
            found = gradient(updater, work, before_each)
        if ends_after is not None:
            ends_after()
        return found

    Trainer.__init__ = started  # type: ignore[method-assign,assignment]
    Updater.gradient = troubled  # type: ignore[method-assign,assignment]
