"""Reports of two runs on one corpus; the second is compared with the first."""

import json
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import read_json
from nmt.cli import report
from nmt.config import CorpusConfig
from tests.html_check import check_page
from tests.runs import run
from tests.support import tiny_config


@pytest.mark.slow
def test_run_writes_its_report(
    tmp_path: Path,
    digit_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    shutil.copytree(digit_corpus, corpora / digit_corpus.name)
    base = replace(tiny_config(tmp_path), corpus=CorpusConfig(name="digits"))
    faster = replace(base.schedule, peak_learning_rate=8e-3)
    other = replace(base, schedule=faster, run=replace(base.run, name="faster"))
    for config in (base, other):
        run(config, corpora / digit_corpus.name)
    first, second = (config.run_folder / "report.html" for config in (base, other))
    assert "Not compared with a baseline" in check_page(first.read_text(encoding="utf-8"), 2)
    runs = (corpora / digit_corpus.name / "runs.html").read_text(encoding="utf-8")
    check_page(runs)
    links = ["../../runs/faster/report.html", "../../runs/tiny/report.html", "report.html"]
    assert sorted(re.findall('href="([^"]*)"', runs)) == links
    page = second.read_text(encoding="utf-8")
    text = check_page(page, num_scripts=2)
    score = read_json(second.with_name("result.json"))["test_sets"]["test"]["bleu"]["score"]
    assert f"test BLEU {score:.2f} ±" in text
    assert "schedule.peak_learning_rate0.0080.005" in text
    assert "Compared with tiny: the only comparable run on digits en-de." in text
    for title in ("Loss", "Validation BLEU", "Learning rate", "Gradient norm", "Speed"):
        assert f"<b>{title}</b>" in page
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert len(json.loads(data)) == 3  # sentences whose attention is shown
    # The command writes the same page.
    second.unlink()
    monkeypatch.setattr(sys, "argv", ["report", f"run={second.parent}"])
    report.main()
    assert second.read_text(encoding="utf-8") == page
    assert f"{os.path.relpath(second)}\n" in capsys.readouterr().err
    # An incomplete run has no report.
    second.with_name("result.json").unlink()
    with pytest.raises(UserError, match="is not complete"):
        report.main()
