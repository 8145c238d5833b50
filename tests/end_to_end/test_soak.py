"""A short run of the soak benchmark; `make soak KILLS=200` is the whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak_points import POINTS
from benchmarks.soak_ranks import FAILURES
from nmt.base.files import read_json, write_lines
from tests.support import made_up_sentences

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_interrupted_runs_end_identical_to_uninterrupted_ones(tmp_path: Path) -> None:
    """Kills, half of them at named points and half at random; and failures of one of two ranks.

    Among others: a rank that exits alone, and out of memory on one rank (fairseq #708).
    """
    result = tmp_path / "soak.json"
    for split, count in {"train": 1200, "valid": 16, "test_2016_flickr": 16}.items():
        # Each hundred sentences have words of their own.
        lines = [line for seed in range(12) for line in made_up_sentences(count // 12 + 1, seed)]
        write_lines(tmp_path / f"{split}.en", lines)
        write_lines(tmp_path / f"{split}.de", [line[::-1] for line in lines])
    numbers = ["kills=4", f"troubles={len(FAILURES)}", "updates=20", "threads=1"]
    arguments = [f"result={result}", f"text={tmp_path}", *numbers]
    command = [sys.executable, "-m", "benchmarks.soak", *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = read_json(result)["rows"]
    for row in rows.values():
        assert (row["lost_updates"], row["identical"], row["bad_exits"]) == (0, True, 0)
    for failure in FAILURES:
        row = rows.pop(f"one of two: {failure}")
        assert row["interruptions"] == 1
        assert row["slowest_exit_seconds"] < 60
    assert sum(row["interruptions"] for row in rows.values()) == 4
    assert len(rows.keys() & POINTS.keys()) == 2
