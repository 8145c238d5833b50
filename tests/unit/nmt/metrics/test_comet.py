import stat
import sys
from pathlib import Path

import pytest

from nmt.metrics import comet
from nmt.metrics.comet import HOW_TO_GET_IT, comet_score

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
    found = comet_score(*TEXT)
    assert (found.score, found.note) == (None, HOW_TO_GET_IT)
    assert len(found.note) <= 100


def test_score_of_the_command_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
options = dict(zip(sys.argv[1:], sys.argv[2:]))
files = [open(options[key], encoding="utf-8").read().splitlines() for key in ("-s", "-t", "-r")]
assert files == [["eine Zeile mit Haken"], ["a line"], ["the line"]], files
assert os.environ["HF_HUB_OFFLINE"] == "1"
print(options["-t"] + "\\tscore: 0.8512")
"""
    install(tmp_path, script, monkeypatch)
    found = comet_score(*TEXT)
    assert found.note == ""
    assert found.score is not None
    assert (found.score.score, found.score.signature) == (0.8512, "Unbabel/wmt22-comet-da")


def test_missing_weights_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sys.exit('no such weights here')", monkeypatch)
    found = comet_score(*TEXT)
    assert found.score is None
    assert "no such weights here" in found.note
