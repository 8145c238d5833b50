"""Runs that are struck: started in forked processes, watched, and compared. Used by soak.py."""

import json
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch

from benchmarks.soak_points import PHASES, watch_phases
from nmt.cli.common import run_command
from nmt.cli.train import train
from nmt.config import Config
from nmt.files import read_lines
from nmt.trained_model import read_weights
from nmt.training.checkpoint import CheckpointStore
from nmt.training.trainer import Trainer

Install = Callable[[], None]
"""Patches the program in the process that trains."""

OFTEN = 0.002
"""Seconds between two looks at a child."""


class Run:
    """One run, which is started again after each strike.

    Attributes:
        config: its configuration.
        is_apart: whether its corpus is its own.
        strikes: so far.
        lost_updates: that a start went back behind the newest checkpoint it found.
        losses: where, and what was said.
    """

    def __init__(self, config: Config, is_apart: bool, install: Install | None) -> None:
        self.config = config
        self._install = install
        self.is_apart = is_apart
        self.strikes = self.lost_updates = 0
        self.losses: list[str] = []
        self._newest = 0

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.config.run_folder

    def attempt(self, install: Install | None = None) -> "Child":
        """Start it; `install` patches the program besides."""
        return Child(self, [patch for patch in (self._install, install) if patch is not None])

    def struck(self, child: "Child") -> None:
        """Note what a child that is gone had found, and what the next one has to find."""
        self.strikes += 1
        self.met(child)

    def met(self, child: "Child") -> None:
        """Count what was lost at a child's start."""
        if child.resumed_at is not None and child.resumed_at < self._newest:
            self.lost_updates += self._newest - child.resumed_at
            self.losses.append(f"{child.resumed_at}, not {self._newest}: {child.log()[-1000:]}")
        store = CheckpointStore(self.folder / "checkpoints", 1, 1)
        self._newest = max(store.updates(), default=0)


class Child:
    """A process that trains.

    Attributes:
        status: its exit status, negative for a signal; None while it runs.
    """

    def __init__(self, run: Run, install: list[Install]) -> None:
        self._run = run
        self._shared = memoryview(mmap.mmap(-1, 16)).cast("i")
        self._note(phase="start", resumed_at=-1)
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115 - until we are gone
        self.status: int | None = None
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            self._train(install)

    @property
    def phase(self) -> str:
        """Which of PHASES it is or was in."""
        return PHASES[self._shared[0]]

    @property
    def resumed_at(self) -> int | None:
        """The update that it began with; None when it did not come so far."""
        update = self._shared[1]
        return update if update >= 0 else None

    def wait(self, seconds: float = 300.0) -> int | None:
        """Wait for its end, or so long; returns the status."""
        limit = time.monotonic() + seconds
        while self.status is None and time.monotonic() < limit:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(OFTEN)
        return self.status

    def wait_for(self, phase: str, seconds: float) -> bool:
        """Wait until it is in a phase, and so many seconds more; False when it ends before."""
        while self.phase != phase:
            if self.wait(OFTEN) is not None:
                return False
        return self.wait(seconds) is None

    def end(self) -> None:
        """Wait for an end that has to be a good one."""
        assert self.wait() == 0, f"{self.status}: {self.log()}"
        self._run.met(self)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._pid, number)

    def log(self) -> str:
        """What it has said."""
        return Path(self._log.name).read_text(encoding="utf-8")

    @property
    def update(self) -> int:
        """The last update that it has made."""
        return self._shared[2]

    def _note(self, phase: str = "", resumed_at: int | None = None, update: int = 0) -> None:
        """Tell the process that watches us. Several of ours do: each value is written by itself."""
        if phase:
            self._shared[0] = PHASES.index(phase)
        if resumed_at is not None:
            self._shared[1] = resumed_at
        if update:
            self._shared[2] = update

    def _run_training(self) -> None:
        train(self._run.config)

    def _train(self, install: list[Install]) -> NoReturn:
        """The child's own life."""
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)
        status = 1
        try:
            watch_phases(lambda phase: self._note(phase=phase))
            start, step = Trainer.__init__, Trainer._step

            def started(trainer: Trainer, *arguments: Any, **named: Any) -> None:
                start(trainer, *arguments, **named)
                self._note(resumed_at=trainer.progress.update)

            def stepped(trainer: Trainer, *arguments: Any) -> None:
                step(trainer, *arguments)
                self._note(update=trainer.progress.update)

            Trainer._step = stepped  # type: ignore[method-assign,assignment]
            Trainer.__init__ = started  # type: ignore[method-assign,assignment]
            for patch in install:
                patch()
            run_command(self._run_training)
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


# What was drawn for the run alone, and what tells times.
_NOT_COMPARED = {".lock", "train.log", "config.yaml", "environment.json", "report.html"}


def contents(folder: Path) -> dict[str, Any]:
    """Everything that a run has left, but for time and what is drawn for it alone."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name in _NOT_COMPARED:
            continue
        if path.name == "weights.safetensors":
            found[name] = read_weights(path)
        elif path.suffix == ".pt":
            found[name] = torch.load(path, weights_only=True)
        elif path.name == "manifest.json":
            # The checksums are those of files compared on their own; that of the optimizer's file
            # depends on the name of the folder it was first written in.
            found[name] = timeless(json.loads(path.read_text())["progress"])
        elif path.suffix == ".json":
            found[name] = timeless(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = [timeless(json.loads(line)) for line in read_lines(path)]
        else:
            found[name] = path.read_bytes()
    return found


def timeless(value: Any) -> Any:
    """A JSON value without the times in it."""
    if isinstance(value, dict):
        return {
            key: timeless(item)
            for key, item in value.items()
            if "second" not in key and "hours" not in key
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def difference(first: Any, second: Any, place: str = "value") -> str:
    """Where two values first differ, tensors in them bit for bit; empty when they are equal."""
    if type(first) is not type(second):
        return place
    if isinstance(first, torch.Tensor):
        is_equal = first.dtype == second.dtype and torch.equal(first, second)
        return "" if is_equal else place
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return f"{place}: keys {sorted(map(str, first.keys() ^ second.keys()))}"
        items = [(first[key], second[key], f"{place}.{key}") for key in first]
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return f"{place}: {len(first)} and {len(second)} items"
        items = [(*both, f"{place}.{n}") for n, both in enumerate(zip(first, second, strict=True))]
    else:
        return "" if first == second else place
    return next(filter(None, (difference(*item) for item in items)), "")
