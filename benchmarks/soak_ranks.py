"""Trouble on one of several processes: an exception, no memory, no number, a kill, an exit.

Used by benchmarks/soak.py.
"""

import math
import os
import random
import signal
import sys
from collections.abc import Callable
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


TROUBLES: dict[str, Callable[[], None] | None] = {
    "an exception": _raise_exception,
    "out of memory": _raise_out_of_memory,
    "no number": None,
    "killed": _kill,
    "exits alone": _exit,
}


def _to_nan(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * math.nan


def make_trouble(name: str, rank: int, update: int, chance: random.Random) -> None:
    """Patch this program so that process `rank` gets into trouble in the update after `update`.

    It does so once: started again by the launcher, it is left alone.
    """
    trouble, is_early = TROUBLES[name], chance.random() < 0.5
    gradient = Updater.gradient
    trainers: list[Trainer] = []
    start = Trainer.__init__

    def started(trainer: Trainer, *arguments: Any, **named: Any) -> None:
        start(trainer, *arguments, **named)
        trainers[:] = [trainer]

    def troubled(updater: Updater, work: UpdateWork, before_each: Callable[[], None]) -> Gradient:
        trainer = trainers[0]
        is_here = (
            trainer.process.rank == rank
            and trainer.progress.update == update
            and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        )
        if is_here and trouble is None:
            weight = trainer.model.transformer.output_weight
            spoil = weight.register_hook(_to_nan)  # type: ignore[no-untyped-call]
        if is_here and is_early and trouble is not None:
            trouble()
        found = gradient(updater, work, before_each)
        if is_here and trouble is None:
            spoil.remove()
        elif is_here and trouble is not None:
            trouble()
        return found

    Trainer.__init__ = started  # type: ignore[method-assign,assignment]
    Updater.gradient = troubled  # type: ignore[method-assign,assignment]


def stop_launcher_after(update: int) -> None:
    """Patch this program so that its first process asks for an end after an update."""
    step = Trainer._step

    def stopping(trainer: Trainer, *arguments: Any) -> None:
        step(trainer, *arguments)
        if trainer.process.is_first and trainer.progress.update == update:
            is_alone = trainer.process.world_size == 1
            os.kill(os.getpid() if is_alone else os.getppid(), signal.SIGTERM)

    Trainer._step = stopping  # type: ignore[method-assign,assignment]
