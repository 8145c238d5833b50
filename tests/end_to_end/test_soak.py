"""Six kills and some troubles of the soak; `make soak KILLS=200` makes them all."""

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
    """The rows that it writes, by name."""
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


@pytest.mark.timeout(600)  # 200 seconds on two free cores
def test_kills_leave_no_trace(tmp_path: Path) -> None:
    rows = soak(tmp_path, "kills=6")
    assert sum(row["strikes"] for row in rows.values()) == 6
    assert len([name for name in rows if not name.startswith(("at random", "nothing"))]) == 3


@pytest.mark.timeout(600)  # 200 seconds on two free cores
def test_trouble_of_one_process_is_not_that_of_all(tmp_path: Path) -> None:
    """A rank that exits alone; out of memory on one rank (fairseq #708): nobody hangs."""
    rows = soak(tmp_path, "kills=0", f"troubles={len(TROUBLES)}")
    for trouble in TROUBLES:
        row = rows[f"one of two: {trouble}"]
        assert row["strikes"] == 1
        assert row["slowest_exit_seconds"] < 60
