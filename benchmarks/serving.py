"""Load on `nmt serve`: latency, throughput beside that of `nmt translate`, errors, differences.

    python -m benchmarks.serving text=news.en model=outputs/latest seconds=300

Clients send one sentence at a time, each as soon as it has its answer. The result is written to
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
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.figures import Figure, figures_json, print_figures, write_result
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import EngineName, checked_dataclass, option
from nmt.trained_model import direction_of, model_folder

_FORM = {"content-type": "application/x-www-form-urlencoded"}


@checked_dataclass
class Arguments:
    """Arguments of the benchmark."""

    text: str
    """Sentences in the source language, one a line."""
    model: str = "outputs/latest"
    """Model or run folder."""
    engine: EngineName = EngineName.torch
    """Program that searches."""
    clients: int = option(64, ge=1, le=1_000)
    """Number of clients at the same time."""
    sentences: int = option(2_000, ge=1, le=100_000)
    """Number of sentences, from the beginning of the text."""
    seconds: int = option(20, ge=1, le=86_400)
    """Duration of the load."""


@dataclass
class _Found:
    """What the clients have seen."""

    seconds: list[float] = field(default_factory=list)
    num_errors: int = 0
    num_differences: int = 0


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the benchmark."""
    given = [f"model={arguments.model}", f"engine={arguments.engine.name}"]
    lines = Path(arguments.text).read_text(encoding="utf-8").splitlines()[: arguments.sentences]
    with _server(given) as (process, port):
        direction = direction_of(model_folder(Path(arguments.model)))
        expected = _ask_alone(port, direction, lines)
        before = _memory(process.pid)
        started = time.monotonic()
        with ThreadPoolExecutor(arguments.clients) as pool:
            end = started + arguments.seconds
            jobs = [
                pool.submit(_client, port, direction, expected, seed, end)
                for seed in range(arguments.clients)
            ]
            found = [job.result() for job in jobs]
        duration = time.monotonic() - started
        growth = _memory(process.pid) - before
    times = [one for client in found for one in client.seconds]
    rate, alone = len(times) / duration, _translate_rate(given, lines)
    cuts = statistics.quantiles(times, n=100)
    figures = [
        Figure("sentences", rate, "per s"),
        Figure("sentences of `nmt translate`", alone, "per s"),
        Figure("ratio", rate / alone, at_least=0.9),
        *(Figure(f"latency, {n} %", 1000 * cuts[n - 1], "ms") for n in (50, 95, 99)),
        Figure("errors", sum(one.num_errors for one in found), at_most=0),
        Figure("differences", sum(one.num_differences for one in found), at_most=0),
        Figure("growth of memory", growth, "MB"),
    ]
    print_figures(f"{arguments.clients} clients, {arguments.seconds} s", figures)
    write_result("serving", {"engine": arguments.engine.name, "figures": figures_json(figures)})


@contextmanager
def _server(given: list[str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "nmt", "serve", "port=0", *given]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        stderr = process.stderr or ()
        found = (re.search(r"127\.0\.0\.1:(\d+)/", line) for line in stderr)
        port = next(int(match[1]) for match in found if match)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: [None for _ in stderr])  # a full pipe would stop the server
            yield process, port
            process.terminate()


def _ask(connection: http.client.HTTPConnection, direction: tuple[str, str], text: str) -> str:
    source, target = direction
    body = urlencode({"q": text, "source": source, "target": target})
    connection.request("POST", "/translate", body, _FORM)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    return str(content["translatedText"])


def _ask_alone(port: int, direction: tuple[str, str], lines: list[str]) -> dict[str, str]:
    """Return the translation of each line when the server has nothing else to do."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    return {line: _ask(connection, direction, line) for line in lines}


def _client(
    port: int, direction: tuple[str, str], expected: dict[str, str], seed: int, end: float
) -> _Found:
    generator, found = random.Random(seed), _Found()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    lines = list(expected)
    while (started := time.monotonic()) < end:
        line = generator.choice(lines)
        try:
            found.num_differences += _ask(connection, direction, line) != expected[line]
        except (OSError, http.client.HTTPException, KeyError):
            found.num_errors += 1
            connection.close()
        found.seconds.append(time.monotonic() - started)
    return found


def _translate_rate(given: list[str], lines: list[str]) -> float:
    """Return the sentences per second of `nmt translate`, without its start."""

    def seconds(texts: list[str]) -> float:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text")
            text.write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")
            files = [f"file={text}", f"out={text}.out", "document=true", "protect=true"]
            started = time.monotonic()
            command = [sys.executable, "-m", "nmt", "translate", *files, *given]
            subprocess.run(command, capture_output=True, check=True)
            return time.monotonic() - started

    return len(lines) / max(1e-9, seconds(lines) - seconds(lines[:1]))


def _memory(pid: int) -> float:
    """Return the memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]


if __name__ == "__main__":
    run_command(main)
