"""The commands as users start them: exit status 2 and one sentence, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def run(module: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"nmt.cli.{module}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "argument", "message"),
    [
        ("train", "modle=small", "modle"),
        ("train", "model.width=510", "model.width=510"),
        ("train", "seeds=1,2,1", "write different non-negative integers"),
        ("evaluate", "model=/nowhere", "/nowhere"),
    ],
)
def test_user_errors_exit_with_2_and_one_sentence(
    module: str, argument: str, message: str, tmp_path: Path
) -> None:
    ended = run(module, argument, cwd=tmp_path)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert ended.stderr.startswith("error: ")
    assert len(ended.stderr.strip().splitlines()) == 1
    assert ended.stdout == ""
    assert list(tmp_path.iterdir()) == []
