"""The command in a process of its own."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import pytest

from nmt.trained_model import TrainedModel, save_trained_model

pytest.importorskip("fastapi", reason="make install-serve")

ROOT = Path(__file__).parents[4]


@pytest.fixture
def folder(trained_model: TrainedModel, tmp_path: Path) -> Path:
    save_trained_model(trained_model, tmp_path / "tiny", {})
    return tmp_path / "tiny"


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its address."""
    command = [sys.executable, "-m", "nmt", "serve", f"model={folder}", "port=0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        stderr: IO[str] = process.stderr  # type: ignore[assignment]
        found = (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in stderr)
        yield process, next(match[0] for match in found if match)
        process.kill()


def test_it_answers_what_it_accepted_before_it_ends(server: tuple[Any, str]) -> None:
    process, address = server

    def ask(number: int) -> bytes:
        url = f"{address}translate?source=en&target=de&q={quote('Kalo mi nepu. ' * 40)}{number}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return bytes(answer.read())

    expected = ask(0)
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    # A client that sends half a request, and one that leaves in the middle of one.
    with socket.create_connection((host, int(port))) as hanging:
        hanging.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nq=")
        with socket.create_connection((host, int(port))) as leaving:
            leaving.sendall(b"GET /translate?target=de&q=Kalo HTTP/1.1\r\nHost: x\r\n\r\n")
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(ask, [0, 0, 0, 0]))
            last = pool.submit(ask, 0)
            while (line := process.stderr.readline()).count("GET /translate 200") < 1:
                assert line
            assert set(answers) == {expected}
            assert last.result() == expected
    process.send_signal(signal.SIGTERM)
    remaining = process.stderr.read()
    assert process.wait(60) == 0
    assert "Kalo" not in remaining
    assert "rror" not in remaining


def test_an_address_in_use_is_an_error_of_the_user(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "nmt", "serve", f"model={folder}", f"port={port}"]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert f"port={port}: cannot listen there: Address already in use" in ended.stderr
