"""`translate file=-` answers while its input is open, and ends when it has to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.cli import translate

ROOT = Path(__file__).parents[2]
MODEL = "model=tests/models/digits_v1"


@contextmanager
def streaming(
    *arguments: str, stdin: int = subprocess.PIPE, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    # Where the tests run in the background SIGINT is ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(
            [sys.executable, "-m", "nmt", "translate", "file=-", MODEL, *arguments],
            cwd=ROOT,
            env=os.environ | environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with started as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process.stdout.readline()


def errors(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.read().decode()


def test_a_signal_ends_it_while_the_input_is_open() -> None:
    with streaming() as process:
        assert answer(process, b"1 2\n") == b"2 1\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert errors(process).splitlines()[1:] == ["error: interrupted"]


def test_it_waits_for_an_input_that_does_not_block() -> None:
    """Some parents leave it so; without data, a read then returns nothing, as at the end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "wb", buffering=0) as pipe, streaming(stdin=reading) as process:
        os.close(reading)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.readline()  # the model is loaded
        time.sleep(0.5)
        pipe.write(b"1 2\n")
        assert process.stdout.readline() == b"2 1\n"


def test_an_invalid_line_ends_it_while_the_input_is_open() -> None:
    with streaming() as process:
        assert answer(process, b"1 2\n") == b"2 1\n"
        assert answer(process, b"\xff\n") == b""
        assert process.wait(60) == 2
        assert "stdin: line 2, byte 1: " in errors(process)


def test_it_ends_when_its_output_is_closed() -> None:
    with streaming() as process:
        assert answer(process, b"1 2\n") == b"2 1\n"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"3 4\n")
        process.stdin.flush()
        assert process.wait(60) == 141


def test_a_line_is_translated_when_it_is_complete_and_written_in_utf_8_in_any_locale() -> None:
    emoji = "7 \N{GRINNING FACE} \N{EN DASH}"
    with streaming("format=jsonl", "input_format=text", PYTHONIOENCODING="latin-1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"1 ")
        process.stdin.flush()
        lines = [answer(process, f"2\n{emoji}\n".encode()), process.stdout.readline()]
        process.stdin.write(b"5 6")  # the last line, without a line feed
        process.stdin.close()
        first, second, last = map(json.loads, [*lines, process.stdout.read()])
        assert [first["source"], second["source"], last["source"]] == ["1 2", emoji, "5 6"]
        assert [each["translations"][0]["text"] for each in (first, last)] == ["2 1", "6 5"]
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("closed", "message"), [("stdin", "stdin is closed"), ("stdout", "there is no stdout")]
)
def test_a_closed_stream_is_reported(
    closed: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["translate", "file=-", MODEL])
    with open(os.devnull) as empty:
        monkeypatch.setattr(sys, "stdin", empty)
        monkeypatch.setattr(sys, closed, None)  # as Python does for a closed stream
        with pytest.raises(UserError, match=message):
            translate.main()
