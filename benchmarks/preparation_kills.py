"""Kill preparations at random moments, continue them, and compare the corpora.

    python -m benchmarks.preparation_kills [text=DIR] [kills=30]

`text` is prepared once without interruption, then again and again from an empty folder. Each of
these preparations is killed up to six times with all its processes (SIGKILL) and continued, with 1,
2 and 4 processes in turn. Each corpus must have the same files, byte for byte, apart from the
versions of libraries in its manifest.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nmt.base.errors import UserError
from nmt.base.layout import MANIFEST_FILE
from nmt.cli.application import application
from nmt.cli.common import run_command
from nmt.config import checked_dataclass, option

_PROCESSES = (1, 2, 4)
_KILLS_PER_CORPUS = 6


@checked_dataclass
class Arguments:
    """See the docstring of the module."""

    text: str = "../shared/data/mixed-en-de"
    kills: int = option(30, ge=1, le=10_000)
    seed: int = option(1, ge=0, le=1_000_000)


@application(Arguments)
def main(arguments: Arguments) -> None:
    """Run the kills; exit with 1 if a corpus differs."""
    if not (Path(arguments.text) / "train.en").is_file():
        raise UserError(f"text={arguments.text} has no train.en and train.de")
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        started = time.perf_counter()
        assert _prepare(arguments.text, whole, 2) is None
        seconds = time.perf_counter() - started
        expected, differing, done, number = _contents(whole), 0, 0, 0
        while done < arguments.kills:
            outputs, number = Path(folder) / f"killed_{number}", number + 1
            spent = 0
            while spent < _KILLS_PER_CORPUS and done < arguments.kills:
                # A continued preparation takes less time, so later kills come earlier.
                limit = chance.uniform(0, seconds if spent == 0 else seconds / 2)
                stage = _prepare(arguments.text, outputs, _PROCESSES[done % 3], limit)
                if stage is None:
                    break
                done, spent = done + 1, spent + 1
                print(f"kill {done} after {limit:.1f} s: {stage}", file=sys.stderr)
            assert _prepare(arguments.text, outputs, _PROCESSES[number % 3]) is None
            is_equal = _contents(outputs) == expected
            differing += not is_equal
            print(f"corpus {number} is {'equal' if is_equal else 'DIFFERENT'}", file=sys.stderr)
    print(f"{done} kills, {number} corpora, {differing} of them differ")
    sys.exit(bool(differing))


def _prepare(text: str, outputs: Path, processes: int, limit: float | None = None) -> str | None:
    """Prepare; return the last message if it was killed after `limit` seconds, else None."""
    keys = ["corpus=folder", f"corpus.path={text}", "corpus.direction=en-de", "corpus.name=killed"]
    keys += ["cleaning=standard", f"prepare.num_processes={processes}", f"run.outputs={outputs}"]
    command = [sys.executable, "-m", "nmt", "prepare", *keys]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _, messages = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, messages = process.communicate()
        return (messages.decode().splitlines() or ["no message yet"])[-1]
    if process.returncode:
        raise UserError(f"preparation failed: {messages.decode()}")
    return None


def _contents(outputs: Path) -> dict[str, str]:
    """Return the hash of every file of the corpus, by name."""
    [corpus] = (outputs / "corpora").glob("killed-*")
    found = {}
    for path in sorted(path for path in corpus.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == MANIFEST_FILE:
            manifest = json.loads(content)
            content = json.dumps({**manifest, "tools": None}, sort_keys=True).encode()
        found[str(path.relative_to(corpus))] = hashlib.sha256(content).hexdigest()
    return found


if __name__ == "__main__":
    run_command(main)
