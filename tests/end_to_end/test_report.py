"""Two runs of one corpus end with their reports; the second is held against the first."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.cli import report
from nmt.config import Config, CorpusConfig
from nmt.errors import UserError
from nmt.files import read_json
from tests.html_check import check_page
from tests.runs import run
from tests.support import tiny_config


@pytest.fixture
def runs(tmp_path: Path, digit_corpus: Path) -> list[Config]:
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    (corpora / digit_corpus.name).symlink_to(digit_corpus)
    base = replace(tiny_config(tmp_path), corpus=CorpusConfig(name="digits"))
    faster = replace(base.schedule, peak_learning_rate=8e-3)
    other = replace(base, schedule=faster, run=replace(base.run, name="faster"))
    for config in (base, other):
        run(config, corpora / digit_corpus.name)
    return [base, other]


@pytest.mark.slow
def test_a_run_ends_with_its_report(runs: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (config.run_folder / "report.html" for config in runs)
    assert "Compared with no baseline" in check_page(first.read_text(encoding="utf-8"))
    page = second.read_text(encoding="utf-8")
    told = check_page(page)
    score = read_json(second.with_name("result.json"))["test_sets"]["test"]["bleu"]["score"]
    assert f"test BLEU {score:.2f} ±" in told
    assert "schedule.peak_learning_rate0.0080.005" in told
    assert "Held against tiny, the one earlier run on digits en-de." in told
    for title in ("Loss", "BLEU on validation", "Learning rate", "Gradient norm", "Speed"):
        assert f"<b>{title}</b>" in page
    assert page.count('class="attention"') >= 3
    # Made again it is the same.
    second.unlink()
    monkeypatch.setattr(sys, "argv", ["report", f"run={second.parent}"])
    report.main()
    assert second.read_text(encoding="utf-8") == page
    # Of a run that is not complete there is none yet.
    second.with_name("result.json").unlink()
    with pytest.raises(UserError, match="is not complete"):
        report.main()
