"""Load on `nmt serve`: differences from `nmt translate`, throughput, latency, memory, a crash.

    python -m benchmarks.serving text=news.en model=outputs/latest seconds=300

For each engine, clients send one sentence at a time, each as soon as it has its answer: first every
sentence once, then any. Then the server is killed under the same load, and started again. All
answers are compared with the lines that `nmt translate` writes. The result is written to
benchmarks/results.
"""

import http.client
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass, option
from nmt.evaluation.systems import open_system

_FORM = {"content-type": "application/x-www-form-urlencoded"}
_PAUSE = 0.2  # seconds until a client asks again whether a server is there
_MAX_TRIES = 1_500
_CRASH_PARTS = 3  # the load around a crash takes at least this part of the duration


@checked_dataclass
class Arguments:
    """Arguments of the benchmark."""

    text: str
    """Sentences in the source language, one a line."""
    model: str = "outputs/latest"
    """Model or run folder."""
    engines: str = "torch ctranslate2"
    """Programs that search, separated by blanks."""
    clients: int = option(64, ge=1, le=1_000)
    """Number of clients at the same time."""
    sentences: int = option(2_000, ge=100, le=100_000)
    """Number of different sentences, from the beginning of the text."""
    seconds: int = option(20, ge=1, le=86_400)
    """Duration of the load; longer if not every sentence was translated."""


@dataclass
class _Load:
    """Clients of a server, and what they have seen.

    Attributes:
        expected: the translation of each sentence.
        direction: codes of the languages.
        port: port of the server.
        seconds: times of the answers.
        num_closed: requests without an answer, because the connection was refused or closed.
        num_errors: answers with an error.
        num_differences: answers with another translation than expected.
    """

    expected: dict[str, str]
    direction: tuple[str, str]
    port: int
    seconds: list[float] = field(default_factory=list)
    num_closed: int = 0
    num_errors: int = 0
    num_differences: int = 0

    def run(self, num_clients: int, duration: float) -> float:
        """Send every sentence at least once, for at least this time; return the seconds taken."""
        generator = random.Random(1)
        lines = list(self.expected)
        started = time.monotonic()

        def texts() -> Iterator[str]:
            yield from generator.sample(lines, len(lines))
            while time.monotonic() < started + duration:
                yield generator.choice(lines)

        given, lock = texts(), threading.Lock()

        def client() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            while True:
                with lock:
                    text = next(given, None)
                if text is None:
                    return
                self._ask(connection, text)

        with ThreadPoolExecutor(num_clients) as pool:
            for job in [pool.submit(client) for _ in range(num_clients)]:
                job.result()
        return time.monotonic() - started

    def _ask(self, connection: http.client.HTTPConnection, text: str) -> None:
        """Send a sentence until there is an answer."""
        source, target = self.direction
        body = urlencode({"q": text, "source": source, "target": target})
        for _ in range(_MAX_TRIES):
            started = time.monotonic()
            try:
                connection.request("POST", "/translate", body, _FORM)
                answer = connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException):
                self.num_closed += 1
                connection.close()
                time.sleep(_PAUSE)
                continue
            self.seconds.append(time.monotonic() - started)
            if answer.status != http.client.OK:
                self.num_errors += 1
            elif json.loads(content)["translatedText"] != self.expected[text]:
                self.num_differences += 1
            return
        raise RuntimeError("the server did not start again")


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    lines = Path(arguments.text).read_text(encoding="utf-8").splitlines()
    lines = list(dict.fromkeys(filter(str.strip, lines)))[: arguments.sentences]
    result: dict[str, object] = {"clients": arguments.clients, "sentences": len(lines)}
    for engine in arguments.engines.split():
        figures = _measured(arguments, engine, lines)
        print_figures(f"{engine}: {arguments.clients} clients, {arguments.seconds} s", figures)
        result[engine] = figures_json(figures)
    write_result("serving", result)


def _measured(arguments: Arguments, engine: str, lines: list[str]) -> list[Figure]:
    given = [f"model={arguments.model}", f"engine={engine}"]
    direction = open_system(Path(arguments.model)).direction
    _, start = _translated(given, lines[:1])
    found, seconds = _translated(given, lines)
    alone = len(lines) / max(1e-9, seconds - start)
    expected = dict(zip(lines, found, strict=True))
    with _server(given) as (process, port):
        load = _Load(expected, direction, port)
        with _memory_of(process.pid) as memory:
            duration = load.run(arguments.clients, arguments.seconds)
    crash = _crash(given, expected, direction, arguments)
    rate = len(load.seconds) / duration
    cuts = statistics.quantiles(load.seconds, n=100)
    half = len(memory) // 2
    first, last = statistics.median(memory[half // 2 : half]), statistics.median(memory[half:])
    return [
        Figure("sentences", rate, "per s"),
        Figure("sentences of `nmt translate`", alone, "per s"),
        Figure("ratio", rate / alone, at_least=0.9),
        *(Figure(f"latency, {n} %", 1000 * cuts[n - 1], "ms") for n in (50, 95, 99)),
        Figure("answers", len(load.seconds)),
        Figure("errors", load.num_errors + load.num_closed, at_most=0),
        Figure("differences from `nmt translate`", load.num_differences, at_most=0),
        Figure("memory", last, "MB"),
        Figure("growth of memory", 100 * (last / first - 1), "%", at_most=2),
        Figure("answers around a crash", len(crash.seconds)),
        Figure("connections closed by the crash", crash.num_closed, at_least=1),
        Figure("errors around a crash", crash.num_errors, at_most=0),
        Figure("differences around a crash", crash.num_differences, at_most=0),
    ]


def _crash(
    given: Sequence[str], expected: dict[str, str], direction: tuple[str, str], arguments: Arguments
) -> _Load:
    """Kill the server under load, and start it again at the same port."""
    with _server(given) as (process, port):
        load = _Load(expected, direction, port)
        with ThreadPoolExecutor(1) as pool:
            clients = pool.submit(load.run, arguments.clients, arguments.seconds / _CRASH_PARTS)
            while len(load.seconds) < len(expected) // 2:  # the middle of the first round
                time.sleep(_PAUSE)
            process.kill()
            process.wait()
            with _server(given, port):
                clients.result()
    return load


@contextmanager
def _server(given: Sequence[str], port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "nmt", "serve", f"port={port}", *given]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        stderr = process.stderr or ()
        found = (re.search(r"127\.0\.0\.1:(\d+)/", line) for line in stderr)
        port = next(int(match[1]) for match in found if match)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: [None for _ in stderr])  # a full pipe would stop the server
            try:
                yield process, port
            finally:
                process.terminate()


def _translated(given: Sequence[str], lines: Sequence[str]) -> tuple[list[str], float]:
    """Return the lines that `nmt translate` writes, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        text, out = Path(folder, "text"), Path(folder, "out")
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files = [f"file={text}", f"out={out}", "document=true", "protect=true"]
        started = time.monotonic()
        command = [sys.executable, "-m", "nmt", "translate", *files, *given]
        subprocess.run(command, capture_output=True, check=True)
        seconds = time.monotonic() - started
        return out.read_text(encoding="utf-8").splitlines(), seconds


@contextmanager
def _memory_of(pid: int) -> Iterator[list[float]]:
    """Measure the memory of a process in MB, once a second."""
    found: list[float] = []
    is_over = threading.Event()

    def measure() -> None:
        while not is_over.wait(1):
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            found.extend(int(one) / 1000 for one in re.findall(r"VmRSS:\s+(\d+)", status))

    thread = threading.Thread(target=measure)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    run_command(main)
