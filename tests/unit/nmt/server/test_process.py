"""The command in a process of its own."""

import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="make install-serve")

ROOT = Path(__file__).parents[4]


Server = tuple[subprocess.Popen[str], str]


def test_it_answers_what_it_accepted_before_it_ends(server: Server) -> None:
    process, address = server
    stderr: IO[str] = process.stderr  # type: ignore[assignment]

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
            while (line := stderr.readline()).count("GET /translate 200") < 1:
                assert line
            assert set(answers) == {expected}
            assert last.result() == expected
    process.send_signal(signal.SIGTERM)
    remaining = stderr.read()
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
