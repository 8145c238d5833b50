"""Where the soak strikes: points of a training that time alone would seldom hit.

Each is a patch of the running program, made in a process that is going to be killed. The program
itself knows nothing of them.
"""

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from nmt.cli import train as cli_train
from nmt.evaluation import evaluate
from nmt.training import checkpoint, experiment, validation
from nmt.training.checkpoint import CheckpointStore
from nmt.training.run_log import RunLog
from nmt.training.tally import Tally
from nmt.training.tracking import Tracker
from nmt.training.trainer import Trainer
from nmt.training.updater import Updater
from nmt.training.validation import Validator

Strike = Callable[[], None]
Test = Callable[..., bool]


@dataclass(frozen=True)
class Point:
    """A named place.

    Attributes:
        name: as it stands in the table.
        install: patches the program so that it calls its argument whenever it passes the place.
    """

    name: str
    install: Callable[[Strike], None]


def _always(*_: Any, **__: Any) -> bool:
    return True


def _before(owner: Any, name: str, test: Test = _always) -> Callable[[Strike], None]:
    def install(strike: Strike) -> None:
        original = getattr(owner, name)

        def struck(*arguments: Any, **named: Any) -> Any:
            if test(*arguments, **named):
                strike()
            return original(*arguments, **named)

        setattr(owner, name, struck)

    return install


def _after(owner: Any, name: str, test: Test = _always) -> Callable[[Strike], None]:
    def install(strike: Strike) -> None:
        original = getattr(owner, name)

        def struck(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if test(*arguments, **named):
                strike()
            return result

        setattr(owner, name, struck)

    return install


def _renamed_to(start: str) -> Test:
    return lambda *paths: Path(paths[1]).name.startswith(start)


def _between_micro_batches(strike: Strike) -> None:
    original = Updater.gradient

    def gradient(self: Updater, work: Any, before_each: Callable[[], None]) -> Any:
        calls = 0

        def counted() -> None:
            nonlocal calls
            before_each()
            calls += 1
            if calls > 1:
                strike()

        return original(self, work, counted)

    Updater.gradient = gradient  # type: ignore[method-assign]


def _half_a_file(strike: Strike) -> None:
    original = torch.save

    def save(value: Any, stream: IO[bytes]) -> None:
        buffer = io.BytesIO()
        original(value, buffer)
        data = buffer.getvalue()
        stream.write(data[: len(data) // 2])
        stream.flush()
        strike()
        stream.write(data[len(data) // 2 :])

    checkpoint.torch.save = save  # type: ignore[attr-defined]


def _half_a_line(strike: Strike) -> None:
    original = Tracker.log

    def log(self: Tracker, update: int, metrics: Any) -> None:
        size = self._path.stat().st_size
        self._stream.write(b'{"update": 1')
        strike()
        self._stream.truncate(size)
        original(self, update, metrics)

    Tracker.log = log  # type: ignore[method-assign]


def _half_pruned(strike: Strike) -> None:
    original = shutil.rmtree

    def remove(path: Any, ignore_errors: bool = False) -> None:
        path = Path(path)
        if path.is_dir() and path.name.startswith(".update_") and path.name.endswith(".old"):
            # Killed here often enough, a run finds it empty.
            for file in sorted(path.iterdir())[-1:]:
                file.unlink()
            strike()
        original(path, ignore_errors=ignore_errors)

    shutil.rmtree = remove  # type: ignore[assignment]


def _ends_epoch(_: Any, work: Any, *__: Any) -> bool:
    return bool(work.next_position.update_in_epoch == 0)


POINTS = (
    Point("first step", _before(Trainer, "_step", lambda self, *_: self.progress.update == 0)),
    Point("mid-update", _between_micro_batches),
    Point("after the step, before the books", _before(Tally, "add")),
    Point("an epoch's last batch", _before(Updater, "gradient", _ends_epoch)),
    Point("after an epoch's last batch", _after(Trainer, "_step", _ends_epoch)),
    Point("half a line of metrics", _half_a_line),
    Point("between metrics and checkpoint", _after(RunLog, "flush")),
    Point("half a file of a checkpoint", _half_a_file),
    Point("between flush and rename", _before(os, "replace", _renamed_to("update_"))),
    Point("after the rename", _after(os, "replace", _renamed_to("update_"))),
    Point("mid-validation", _before(validation, "bleu_score")),
    Point("after validation, before its books", _after(Trainer, "_judged")),
    Point("counters, before the rename", _before(os, "replace", _renamed_to("manifest.json"))),
    Point("while old checkpoints are pruned", _half_pruned),
    Point("while weights are averaged", _before(CheckpointStore, "average")),
    Point("while test sets are translated", _before(evaluate, "evaluate")),
    Point("model folder, before the rename", _before(os, "replace", _renamed_to("model"))),
    Point("result, before the rename", _before(os, "replace", _renamed_to("result.json"))),
)

PHASES = ("preparation", "start", "update", "validation", "checkpoint", "pruning", "end")


def watch_phases(enter: Callable[[str], None]) -> None:
    """Patch the program so that it tells which phase of PHASES it is in."""
    places = (
        (cli_train, "prepare", "preparation"),
        (Trainer, "_loop", "update"),
        (Validator, "validate", "validation"),
        (CheckpointStore, "save", "checkpoint"),
        (CheckpointStore, "note", "checkpoint"),
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
