"""A short run of the soak benchmark; `make soak KILLS=200` is the whole."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.soak_ranks import TROUBLES

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def soak(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run it; return its rows by name."""
    result = folder / "soak.json"
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak", f"result={result}", "threads=1", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    rows: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))["rows"]
    for row in rows.values():
        assert (row["lost_updates"], row["identical"], row["bad_exits"]) == (0, True, 0)
    return rows


@pytest.mark.timeout(600)
def test_killed_runs_end_identical_to_uninterrupted_ones(tmp_path: Path) -> None:
    """Half of the kills are at named points, half at random."""
    rows = soak(tmp_path, "kills=4")
    assert sum(row["interruptions"] for row in rows.values()) == 4
    assert len([name for name in rows if not name.startswith(("at random", "nothing"))]) == 2


@pytest.mark.timeout(600)
def test_a_failing_process_does_not_make_the_others_hang(tmp_path: Path) -> None:
    """Among others: a rank that exits alone, and out of memory on one rank (fairseq #708)."""
    rows = soak(tmp_path, "kills=0", f"troubles={len(TROUBLES)}")
    for trouble in TROUBLES:
        row = rows[f"one of two: {trouble}"]
        assert row["interruptions"] == 1
        assert row["slowest_exit_seconds"] < 60
