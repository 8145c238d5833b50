"""Import damaged and hostile folders, and require a model or an error of one sentence for each.

    python -m benchmarks.fuzz_imports [count=20000] [seed=1] [minutes=60]

Hypothesis draws changes of the files of two small models, one of Hugging Face and one of Marian:
bytes of any file, values of JSON and YAML, arrays, and texts made to need much time or memory. Each
folder is imported by `nmt.exchange.confined`. Its process is forked from this one instead of
started, which saves the imports of libraries.
"""

import io
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch
from ctranslate2.converters import MarianConverter
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    MarianMTModel,
    MarianTokenizer,
    PegasusForConditionalGeneration,
)

from benchmarks.fuzz_folders import changed_folder, write_folders
from nmt.base.errors import UserError, one_line
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import (
    checked_dataclass,
    option,
)
from nmt.exchange.confined import Process, run_confined, serve
from nmt.exchange.import_folder import import_folder
from nmt.exchange.import_request import Limits, Request

_BATCH = 500  # folders; the time is looked at after each batch
_MAX_SECONDS = 10.0
_MAX_GROWTH = 200e6  # bytes
_LINES = ["ka lo mi.", "ne pu ra so", "ti ve zu ka mi lo."]
_MEMORY = 2 * 10**9
# Imported here once, instead of in each process.
_IMPORTED = (MarianConverter, MarianTokenizer, MarianMTModel, PegasusForConditionalGeneration)
_ALSO_IMPORTED = (AutoTokenizer, AutoModelForSeq2SeqLM, import_folder)


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    count: int = option(20_000, ge=1, le=10_000_000)
    seed: int = option(1, ge=0, le=1_000_000)
    minutes: float = option(60.0, ge=0.1, le=10_000.0)


@dataclass
class _Found:
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0


class _Forked:
    """A process that was forked from this one; see `nmt.exchange.confined.Process`."""

    def __init__(self, request: Request) -> None:
        read, write = os.pipe()
        self._status: int | None = None
        self.seconds = 0.0
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                os.close(read)
                silent = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(silent, descriptor)
                with os.fdopen(write, "w", encoding="utf-8") as stream:
                    serve(request, stream)
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        self.stdout: IO[bytes] | None = os.fdopen(read, "rb")

    def wait(self) -> int:
        """Return the exit status; -N after signal N."""
        if self._status is None:
            _, status, usage = os.wait4(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            self.seconds = usage.ru_utime + usage.ru_stime
        return self._status

    def kill(self) -> None:
        """End the process."""
        if self._status is None:
            os.kill(self.pid, 9)


def _forking(started: list[_Forked]) -> Callable[[Request], Any]:
    @contextmanager
    def start(request: Request) -> Iterator[Process]:
        process = _Forked(request)
        started.append(process)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    return start


@settings(max_examples=1, database=None, deadline=None, phases=[Phase.generate])
@given(st.text())
def _make_characters(_: str) -> None:
    """Let Hypothesis make its file of Unicode's characters if there is none; this takes 209 MB."""


def fuzz(arguments: Arguments, folders: dict[str, Path], root: Path) -> _Found:
    """Import changed folders; at the end of the time, the rest is left out."""
    found, end = _Found(), time.monotonic() + 60 * arguments.minutes
    changed, kept = root / "changed", root / "kept"
    kept.mkdir()

    for first in range(0, arguments.count, _BATCH):
        if time.monotonic() < end:

            @seed(arguments.seed + first)
            @settings(
                max_examples=min(_BATCH, arguments.count - first),
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(changed_folder(changed, folders))
            def batch(what: str) -> None:
                _import(changed, what, found, kept)

            batch()
    return found


def _import(folder: Path, what: str, found: _Found, kept: Path) -> None:
    """Import a folder, and record the outcome."""
    workspace = folder.with_name("workspace")
    shutil.rmtree(workspace, ignore_errors=True)
    (workspace / "out").mkdir(parents=True)
    limits = Limits(_MEMORY, 8, 8)
    request = Request(
        str(folder), "FOLDER", str(workspace), str(workspace / "out"), "en-de", _LINES, limits
    )
    started: list[_Forked] = []
    fault = ""
    try:
        run_confined(request, _forking(started))
        outcome = "imported"
    except UserError as error:
        outcome = str(error).replace(str(folder), "FOLDER")
        if "\n" in outcome or "FOLDER" not in outcome:
            fault = "not one sentence that names the folder"
        elif "ended with status" in outcome and "status -" not in outcome:
            fault = "the process did not catch its error"
    except Exception as error:
        outcome = f"{type(error).__name__}: {one_line(error)}"
        fault = "no UserError"
    seconds = started[0].seconds
    if seconds > _MAX_SECONDS:
        fault = f"took {seconds:.1f} s"
    found.slowest = max(found.slowest, seconds)
    kind = re.sub(r"\d+", "N", re.sub(r"'[^']*'|\"[^\"]*\"", "…", outcome))[:90]
    found.outcomes[kind] += 1
    if fault:
        number = len(found.faults)
        found.faults.append(f"{number}: {fault}: {what}: {one_line(outcome)}")
        if number < 100:
            shutil.copytree(folder, kept / str(number))


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the imports; exit with 1 if one of them shows a fault."""
    root = Path(tempfile.mkdtemp())
    torch.set_num_threads(1)  # a process with threads cannot be forked safely
    folders = write_folders(root)
    if not (pid := os.fork()):
        _make_characters()
        os._exit(0)
    os.waitpid(pid, 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with redirect_stderr(io.StringIO()):
        found = fuzz(arguments, folders, root)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    for kind, number in found.outcomes.most_common(40):
        print(f"{number:7,}  {kind}")
    total, imported = sum(found.outcomes.values()), found.outcomes["imported"]
    print(f"{total:,} folders, {imported:,} imported; slowest {found.slowest:.1f} s")
    print(f"memory of this process grew by {growth / 1e6:.0f} MB")
    for line in found.faults:
        print(line)
    if found.faults or growth > _MAX_GROWTH:
        print(f"faulty folders: {root / 'kept'}")
        sys.exit(1)
    shutil.rmtree(root)


if __name__ == "__main__":
    run_command(main)
