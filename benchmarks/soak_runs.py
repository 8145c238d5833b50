"""Interrupted runs: started in forked processes, observed, and compared; used by soak.py."""

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
from nmt.base.files import read_lines
from nmt.cli.common import run_command
from nmt.config import Config
from nmt.runs.train import train
from nmt.trained_model import read_weights
from nmt.training.checkpoint import CheckpointStore
from nmt.training.trainer import Trainer

Install = Callable[[], None]
"""Patches the program in the process that trains."""

POLL_SECONDS = 0.002
"""Seconds between two checks of a child process."""


class Run:
    """One run, which is started again after each interruption.

    Attributes:
        config: its configuration.
        is_apart: whether it has its own output folder and corpus.
        interruptions: number of interruptions.
        lost_updates: updates between the newest checkpoint and the one that was resumed from.
        losses: a line and the end of the log for each resumption that lost updates.
    """

    def __init__(self, config: Config, is_apart: bool, install: Install | None) -> None:
        self.config = config
        self._install = install
        self.is_apart = is_apart
        self.interruptions = self.lost_updates = 0
        self.losses: list[str] = []
        self._newest = 0

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.config.run_folder

    def attempt(self, install: Install | None = None) -> "Child":
        """Start the run; `install` is a further patch of the program."""
        return Child(self, [patch for patch in (self._install, install) if patch is not None])

    def record_interruption(self, child: "Child") -> None:
        """Count an interruption, and the updates that were lost at the start of the child."""
        self.interruptions += 1
        self.check_resumption(child)

    def check_resumption(self, child: "Child") -> None:
        """Count the updates that were lost at the start of a child that has ended."""
        if child.resumed_at is not None and child.resumed_at < self._newest:
            self.lost_updates += self._newest - child.resumed_at
            self.losses.append(
                f"resumed at {child.resumed_at} instead of {self._newest}: {child.log()[-1000:]}"
            )
        store = CheckpointStore(self.folder / "checkpoints", 1, 1)
        self._newest = max(store.updates(), default=0)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Child:
    """A process that trains.

    Attributes:
        status: its exit status, negative for a signal; None while it runs.
    """

    def __init__(self, run: Run, install: list[Install]) -> None:
        self._run = run
        # Phase, update it resumed from and last update; the ranks write them concurrently.
        self._shared = memoryview(mmap.mmap(-1, 16)).cast("i")
        self._shared[0], self._shared[1] = PHASES.index("start"), -1
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115
        self.status: int | None = None
        sys.stderr.flush()
        # A program handles signals from its first line on, a child only from `_run_training` on.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._pid = os.fork()
        if not self._pid:
            self._train(install)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    @property
    def phase(self) -> str:
        """The current or last of PHASES."""
        return PHASES[self._shared[0]]

    @property
    def resumed_at(self) -> int | None:
        """The update that it resumed from; None if it ended before it could resume."""
        update = self._shared[1]
        return update if update >= 0 else None

    def wait(self, seconds: float = 300.0) -> int | None:
        """Wait for the end, up to a time limit; return the status."""
        limit = time.monotonic() + seconds
        while self.status is None and time.monotonic() < limit:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(POLL_SECONDS)
        return self.status

    def wait_for(self, phase: str, seconds: float) -> bool:
        """Wait for a phase, then some seconds more; return False if it ends before."""
        while self.phase != phase:
            if self.wait(POLL_SECONDS) is not None:
                return False
        return self.wait(seconds) is None

    def end(self) -> None:
        """Wait for the end, which has to be successful."""
        assert self.wait() == 0, f"{self.status}: {self.log()}"
        self._run.check_resumption(self)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self._pid, number)

    def log(self) -> str:
        """Return its output so far."""
        # Processes that the child has forked may have removed the name, and share the position.
        number = self._log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    @property
    def update(self) -> int:
        """The last completed update."""
        return self._shared[2]

    def _run_training(self) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        train(self._run.config)

    def _train(self, install: list[Install]) -> NoReturn:
        """Patch the program, train and exit; runs in the child process."""
        for stream in (1, 2):
            os.dup2(self._log.fileno(), stream)
        shared, status = self._shared, 1

        def entered(phase: str) -> None:
            shared[0] = PHASES.index(phase)

        try:
            watch_phases(entered)
            start, step = Trainer.__init__, Trainer._step

            def started(trainer: Trainer, *arguments: Any, **named: Any) -> None:
                start(trainer, *arguments, **named)
                shared[1] = trainer.state.update

            def stepped(trainer: Trainer, *arguments: Any) -> None:
                step(trainer, *arguments)
                shared[2] = trainer.state.update

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


# Files with random identifiers, times or the name of the run.
_NOT_COMPARED = {".lock", "train.log", "config.yaml", "environment.json", "report.html"}


def contents(folder: Path) -> dict[str, Any]:
    """Read all files of a run, without times and random identifiers."""
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
            # The files themselves are compared. The checksum of the optimizer's file depends on
            # the name of the folder in which it was first written.
            found[name] = timeless(json.loads(path.read_text())["state"])
        elif path.suffix == ".json":
            found[name] = timeless(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = [timeless(json.loads(line)) for line in read_lines(path)]
        elif path.name == "README.md":  # it states the time that the training took
            found[name] = [line for line in read_lines(path) if "device hours" not in line]
        else:
            found[name] = path.read_bytes()
    return found


def timeless(value: Any) -> Any:
    """Remove times from a JSON value."""
    if isinstance(value, dict):
        return {
            key: timeless(item)
            for key, item in value.items()
            if "second" not in key and "hours" not in key
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def difference(first: Any, second: Any, path: str = "value") -> str:
    """Return the path of the first difference, tensors compared bit for bit; "" if equal."""
    if type(first) is not type(second):
        return path
    if isinstance(first, torch.Tensor):
        is_equal = first.dtype == second.dtype and torch.equal(first, second)
        return "" if is_equal else path
    if isinstance(first, dict):
        if first.keys() != second.keys():
            return f"{path}: keys {sorted(map(str, first.keys() ^ second.keys()))}"
        items = [(first[key], second[key], f"{path}.{key}") for key in first]
    elif isinstance(first, list | tuple):
        if len(first) != len(second):
            return f"{path}: {len(first)} and {len(second)} items"
        items = [(*both, f"{path}.{n}") for n, both in enumerate(zip(first, second, strict=True))]
    else:
        return "" if first == second else path
    return next(filter(None, (difference(*item) for item in items)), "")
