"""Points of a training at which the soak benchmark kills it; random times seldom hit them.

Each point patches the program in the process that will be killed.
"""

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from nmt.evaluation import evaluate
from nmt.runs import experiment
from nmt.runs import train as train_module
from nmt.tracking.file_tracker import FileTracker
from nmt.training import checkpoint, validation
from nmt.training.checkpoint import CheckpointStore
from nmt.training.metrics import RunningMetrics
from nmt.training.run_log import RunLog
from nmt.training.trainer import Trainer
from nmt.training.updater import Updater
from nmt.training.validation import Validator

Interrupt = Callable[[], None]
Point = Callable[[Interrupt], None]
"""Patches the program to call its argument whenever a point of it is passed."""
Test = Callable[..., bool]


def _always(*_: Any, **__: Any) -> bool:
    return True


def _at(owner: Any, name: str, test: Test = _always, is_after: bool = False) -> Point:
    """Return the point before or after the calls of a function whose arguments pass a test."""

    def install(interrupt: Interrupt) -> None:
        original = getattr(owner, name)

        def interrupted(*arguments: Any, **named: Any) -> Any:
            is_due = test(*arguments, **named)
            if is_due and not is_after:
                interrupt()
            result = original(*arguments, **named)
            if is_due and is_after:
                interrupt()
            return result

        setattr(owner, name, interrupted)

    return install


def _renamed_to(start: str) -> Test:
    return lambda *paths: Path(paths[1]).name.startswith(start)


def _between_micro_batches(interrupt: Interrupt) -> None:
    original = Updater.gradient

    def gradient(self: Updater, work: Any, before_round: Callable[[], None]) -> Any:
        calls = 0

        def counted() -> None:
            nonlocal calls
            before_round()
            calls += 1
            if calls > 1:
                interrupt()

        return original(self, work, counted)

    Updater.gradient = gradient  # type: ignore[method-assign]


def _half_a_file(interrupt: Interrupt) -> None:
    original = torch.save

    def save(value: Any, stream: IO[bytes]) -> None:
        buffer = io.BytesIO()
        original(value, buffer)
        data = buffer.getvalue()
        stream.write(data[: len(data) // 2])
        stream.flush()
        interrupt()
        stream.write(data[len(data) // 2 :])

    checkpoint.torch.save = save  # type: ignore[attr-defined]


def _half_a_line(interrupt: Interrupt) -> None:
    original = FileTracker.log

    def log(self: FileTracker, update: int, record: Any) -> None:
        size = self.path.stat().st_size
        with self.path.open("ab") as out:
            out.write(b'{"update": 1')
        interrupt()
        os.truncate(self.path, size)
        original(self, update, record)

    FileTracker.log = log  # type: ignore[method-assign]


def _half_pruned(interrupt: Interrupt) -> None:
    original = shutil.rmtree

    def remove(path: Any, ignore_errors: bool = False) -> None:
        path = Path(path)
        if path.is_dir() and path.name.startswith(".update_") and path.name.endswith(".old"):
            # After several kills at this point the folder is empty.
            for file in sorted(path.iterdir())[-1:]:
                file.unlink()
            interrupt()
        original(path, ignore_errors=ignore_errors)

    shutil.rmtree = remove  # type: ignore[assignment]


def _ends_epoch(_: Any, work: Any, *__: Any) -> bool:
    return bool(work.next_position.update_in_epoch == 0)


POINTS: dict[str, Point] = {
    "first step": _at(Trainer, "_step", lambda self, *_: self.state.update == 0),
    "mid-update": _between_micro_batches,
    "after the step, before the metrics": _at(RunningMetrics, "add"),
    "an epoch's last batch": _at(Updater, "gradient", _ends_epoch),
    "after an epoch's last batch": _at(Trainer, "_step", _ends_epoch, is_after=True),
    "half a line of metrics": _half_a_line,
    "between metrics and checkpoint": _at(RunLog, "flush", is_after=True),
    "half a file of a checkpoint": _half_a_file,
    "between flush and rename": _at(os, "replace", _renamed_to("update_")),
    "after the rename": _at(os, "replace", _renamed_to("update_"), is_after=True),
    "mid-validation": _at(validation, "bleu_score"),
    "after validation, before its state is saved": _at(CheckpointStore, "update_state"),
    "counters, before the rename": _at(os, "replace", _renamed_to("manifest.json")),
    "while old checkpoints are pruned": _half_pruned,
    "while weights are averaged": _at(CheckpointStore, "average"),
    "while test sets are translated": _at(evaluate, "evaluate"),
    "model folder, before the rename": _at(os, "replace", _renamed_to("model")),
    "result, before the rename": _at(os, "replace", _renamed_to("result.json")),
}

PHASES = ("preparation", "start", "update", "validation", "checkpoint", "pruning", "end")


def watch_phases(enter: Callable[[str], None]) -> None:
    """Patch the program to call `enter` with each phase of PHASES that it enters."""
    watched = (
        (train_module, "prepare_corpus", "preparation"),
        (Trainer, "_loop", "update"),
        (Validator, "validate", "validation"),
        (CheckpointStore, "save", "checkpoint"),
        (CheckpointStore, "update_state", "checkpoint"),
        (CheckpointStore, "_prune", "pruning"),
        (experiment, "finish", "end"),
    )
    stack = ["start"]
    for owner, name, phase in watched:
        _watch(owner, name, phase, stack, enter)


def _watch(
    owner: Any, name: str, phase: str, stack: list[str], enter: Callable[[str], None]
) -> None:
    original = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        stack.append(phase)
        enter(phase)
        try:
            return original(*arguments, **named)
        finally:
            stack.pop()
            enter(stack[-1])

    setattr(owner, name, watched)
