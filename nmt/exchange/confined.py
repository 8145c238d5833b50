"""Run the import of a folder of unknown origin in a process of its own, with limits.

    python -P -m nmt.exchange.confined REQUEST.json

The process has limits on memory, processor time and open files, and no network. It writes the
model into a folder, and sends messages on stdout, each a line of JSON. Whatever happens to it, the
command gets a result, or an error of one sentence.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from nmt.base.errors import (
    DISK_ERRNOS,
    DiskError,
    UserError,
    disk_errno,
    first_line,
    is_out_of_memory,
    one_line,
)
from nmt.base.files import write_json
from nmt.base.log import print_line
from nmt.base.progress import Advance, progress_bar
from nmt.base.system import signal_at_death_of_parent
from nmt.exchange.import_request import GIGABYTE, Imported, Limits, Request

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000  # of unshare(2)
_MAX_FILES = 256
_MAX_MESSAGE = 2**20  # bytes
_FORBIDDEN_EVENTS = {"socket.connect", "socket.getaddrinfo", "socket.bind", "subprocess.Popen"}
_ADVICE = "the file is damaged, or made to do harm; take the model from another place"


@dataclass(frozen=True)
class _Message:
    """One of: a line to print, a file that is read next, progress, an error, the result."""

    line: str | None = None
    file: str | None = None
    title: str | None = None
    total: int = 0
    advance: float | None = None
    error: str | None = None
    disk_error: int | None = None
    is_memory_exhausted: bool = False
    result: Imported | None = None


_MESSAGES = TypeAdapter(_Message)  # takes some milliseconds and memory to make


class Process(Protocol):
    """A running process, as in `subprocess`."""

    stdout: IO[bytes] | None

    def wait(self) -> int:
        """Return the exit status; -N after signal N."""

    def kill(self) -> None:
        """End the process."""


@contextmanager
def _started(request: Request) -> Iterator[Process]:
    """Start the process, and end it with the block."""
    file = Path(request.workspace, "request.json")
    write_json(file, asdict(request))
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": request.workspace,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **variables},
        start_new_session=True,  # a Ctrl-C reaches this process alone, which then ends the other
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def run_confined(
    request: Request, started: Callable[[Request], AbstractContextManager[Process]] = _started
) -> Imported:
    """Import a folder in a process of its own; print its lines and show its progress.

    Args:
        request: what to import.
        started: starts the process.

    Raises:
        UserError: the folder cannot be imported, or the process was ended; the message names the
            folder and the file that was read.
    """
    limits, current, found = request.limits, "", _Message()
    advance: Advance | None = None
    with ExitStack() as stack:
        process = stack.enter_context(started(request))
        assert process.stdout is not None
        # A process may also wait forever. Imports of libraries and a busy machine take their time.
        timer = threading.Timer(60 + 10 * limits.reading, process.kill)
        timer.daemon = True
        timer.start()
        stack.callback(timer.cancel)
        while line := process.stdout.readline(_MAX_MESSAGE):
            try:
                found = _MESSAGES.validate_json(line)
            except ValidationError:  # a message that was cut off
                found = _Message()
            if found.line is not None:
                print_line(found.line)
            if found.file is not None:
                current = found.file
            if found.title is not None:
                timer.cancel()
                current, advance = "", stack.enter_context(progress_bar(found.title, found.total))
            if found.advance is not None and advance:
                advance(found.advance)
        status = process.wait()
    if found.result is not None and status == 0:
        return found.result
    if found.error is not None:
        raise UserError(found.error)
    if found.disk_error is not None:
        raise DiskError(Path(request.out), found.disk_error)
    where = f"{request.name}/{current}" if current else f"{request.name}: the original model"
    raise UserError(f"{where} cannot be read: {_reason(status, found, limits)}; {_ADVICE}")


def _reason(status: int, last: _Message, limits: Limits) -> str:
    if last.is_memory_exhausted:
        return (
            f"this needs more than {limits.memory / GIGABYTE:.1f} GB of memory, the limit for a"
            " folder of this size"
        )
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "this takes too much time, or more memory than the machine has"
    return f"the process that read it ended with status {status}"


def serve(request: Request, stream: IO[str]) -> None:
    """Import a folder in this process, limit it, and send messages."""

    def send(**message: Any) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()

    try:
        from nmt.exchange.import_folder import import_folder  # noqa: PLC0415 - after `_isolate`

        _limit(request.limits)
        result = import_folder(request, send, lambda: _limit_time(request.limits.comparing))
        send(result=asdict(result))
    except UserError as error:
        number = error.number if isinstance(error, DiskError) else None
        text = one_line(error)
        if request.name not in text and request.folder not in text:
            text = f"{request.name}: {text}"
        send(error=None if number else text, disk_error=number)
    except Exception as error:
        number = disk_errno(error)
        if is_out_of_memory(error):
            send(is_memory_exhausted=True)
        elif number in DISK_ERRNOS:
            send(disk_error=number)
        else:
            send(error=f"{request.name}: cannot be imported: {one_line(first_line(error))}")


def _limit(limits: Limits) -> None:
    """Limit memory, files and processor time, and forbid connections and commands."""
    _set_limit(resource.RLIMIT_DATA, limits.memory)
    _set_limit(resource.RLIMIT_NOFILE, _MAX_FILES)
    _set_limit(resource.RLIMIT_CORE, 0)
    _limit_time(limits.reading)

    def refuse(event: str, _: object) -> None:
        if event in _FORBIDDEN_EVENTS:
            raise PermissionError(f"{event} is not allowed while a folder is imported")

    sys.addaudithook(refuse)


def _limit_time(seconds: int) -> None:
    """Let the kernel end this process after some more seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _set_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + seconds)


def _set_limit(kind: int, limit: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit if hard < 0 else min(limit, hard), hard))


def _isolate() -> None:
    """End with the parent, and leave the network, where the kernel allows that.

    This must run before the first thread starts, and so before the imports of libraries.
    """
    signal_at_death_of_parent(signal.SIGKILL)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def main() -> None:
    """Serve the request in a file."""
    _isolate()
    request = TypeAdapter(Request).validate_json(Path(sys.argv[1]).read_bytes())
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as stream:
        os.dup2(2, 1)  # libraries may print
        serve(request, stream)


if __name__ == "__main__":
    main()
