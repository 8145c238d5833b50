import re
import stat
import sys
from pathlib import Path

import pytest

from nmt.metrics import comet
from nmt.metrics.comet import NOT_INSTALLED, CometError, comet_score
from nmt.metrics.scores import Score

TEXT = (["eine Zeile\u2028mit Haken"], ["a line"], ["the line"])


def install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a replacement of the command as the only one on the path."""
    path = folder / "comet-score"
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))


def test_missing_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(comet.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(CometError, match=re.escape(NOT_INSTALLED)):
        comet_score(*TEXT)
    assert len(NOT_INSTALLED) <= 100


def test_score_of_the_command_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
options = dict(zip(sys.argv[1:], sys.argv[2:]))
files = [open(options[key], encoding="utf-8").read().splitlines() for key in ("-s", "-t", "-r")]
assert files == [["eine Zeile mit Haken"], ["a line"], ["the line"]], files
assert os.environ["HF_HUB_OFFLINE"] == "1"
print(options["-t"] + "\\tscore: 0.8512")
"""
    install(tmp_path, script, monkeypatch)
    assert comet_score(*TEXT) == Score(0.8512, "Unbabel/wmt22-comet-da")


def test_missing_weights_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sys.exit('no such weights here')", monkeypatch)
    with pytest.raises(CometError, match="failed: no such weights here"):
        comet_score(*TEXT)
