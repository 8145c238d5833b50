"""Points of a training at which the soak benchmark kills it; random times seldom hit them.

Each point patches the program in the process that will be killed.
"""

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from nmt.cli import run as cli_run
from nmt.evaluation import evaluate
from nmt.runs import experiment
from nmt.training import checkpoint, validation
from nmt.training.checkpoint import CheckpointStore
from nmt.training.metrics import RunningMetrics
from nmt.training.run_log import RunLog
from nmt.training.trackers import FileTracker
from nmt.training.trainer import Trainer
from nmt.training.updater import Updater
from nmt.training.validation import Validator

Interrupt = Callable[[], None]
Test = Callable[..., bool]


@dataclass(frozen=True)
class Point:
    """A point in the program.

    Attributes:
        name: its name in the table.
        install: patches the program to call its argument whenever the point is passed.
    """

    name: str
    install: Callable[[Interrupt], None]


def _always(*_: Any, **__: Any) -> bool:
    return True


def _before(owner: Any, name: str, test: Test = _always) -> Callable[[Interrupt], None]:
    def install(interrupt: Interrupt) -> None:
        original = getattr(owner, name)

        def interrupted(*arguments: Any, **named: Any) -> Any:
            if test(*arguments, **named):
                interrupt()
            return original(*arguments, **named)

        setattr(owner, name, interrupted)

    return install


def _after(owner: Any, name: str, test: Test = _always) -> Callable[[Interrupt], None]:
    def install(interrupt: Interrupt) -> None:
        original = getattr(owner, name)

        def interrupted(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if test(*arguments, **named):
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

    def log(self: FileTracker, update: int, metrics: Any) -> None:
        size = self._path.stat().st_size
        self._stream.write(b'{"update": 1')
        interrupt()
        self._stream.truncate(size)
        original(self, update, metrics)

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


POINTS = (
    Point("first step", _before(Trainer, "_step", lambda self, *_: self.state.update == 0)),
    Point("mid-update", _between_micro_batches),
    Point("after the step, before the metrics", _before(RunningMetrics, "add")),
    Point("an epoch's last batch", _before(Updater, "gradient", _ends_epoch)),
    Point("after an epoch's last batch", _after(Trainer, "_step", _ends_epoch)),
    Point("half a line of metrics", _half_a_line),
    Point("between metrics and checkpoint", _after(RunLog, "flush")),
    Point("half a file of a checkpoint", _half_a_file),
    Point("between flush and rename", _before(os, "replace", _renamed_to("update_"))),
    Point("after the rename", _after(os, "replace", _renamed_to("update_"))),
    Point("mid-validation", _before(validation, "bleu_score")),
    Point("after validation, before its state is saved", _after(Trainer, "_validated")),
    Point("counters, before the rename", _before(os, "replace", _renamed_to("manifest.json"))),
    Point("while old checkpoints are pruned", _half_pruned),
    Point("while weights are averaged", _before(CheckpointStore, "average")),
    Point("while test sets are translated", _before(evaluate, "evaluate")),
    Point("model folder, before the rename", _before(os, "replace", _renamed_to("model"))),
    Point("result, before the rename", _before(os, "replace", _renamed_to("result.json"))),
)

PHASES = ("preparation", "start", "update", "validation", "checkpoint", "pruning", "end")


def watch_phases(enter: Callable[[str], None]) -> None:
    """Patch the program to call `enter` with each phase of PHASES that it enters."""
    places = (
        (cli_run, "prepare", "preparation"),
        (Trainer, "_loop", "update"),
        (Validator, "validate", "validation"),
        (CheckpointStore, "save", "checkpoint"),
        (CheckpointStore, "update_state", "checkpoint"),
        (CheckpointStore, "_prune", "pruning"),
        (experiment, "_finish", "end"),
    )
    for owner, name, phase in places:
        _watch(owner, name, phase, enter)


def _watch(owner: Any, name: str, phase: str, enter: Callable[[str], None]) -> None:
    original = getattr(owner, name)
    stack = _STACK

    def watched(*arguments: Any, **named: Any) -> Any:
        stack.append(phase)
        enter(phase)
        try:
            return original(*arguments, **named)
        finally:
            stack.pop()
            enter(stack[-1])

    setattr(owner, name, watched)


_STACK = ["start"]
