from dataclasses import replace
from pathlib import Path

import pytest

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import SourceConfig
from tests.html_check import check_page
from tests.unit.data_prep.conftest import Toy, write_pairs


def test_the_report_escapes_text_and_has_all_parts(toy: Toy) -> None:
    english = [*toy.lines("train.en"), "", "<script>alert(1)</script> & more"]
    write_pairs(toy.raw, "train", english, [*toy.lines("train.de"), "<b>leer</b>", "<i>"])
    folder = toy.prepare(name="a&b")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert '<a href="runs.html">' in page
    runs = (folder / "runs.html").read_text(encoding="utf-8")
    assert "No run is listed yet" in check_page(runs)
    assert f">{folder.name.replace('&', '&amp;')}</a></h1>" in runs
    assert "a&amp;b, en-de" in page
    assert "Of 202 training pairs" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "&lt;b&gt;leer&lt;/b&gt;" in page
    assert "<script" not in page
    check_page(page)
    assert "prefers-color-scheme: dark" in page
    for heading in ("Filters", "Oddest pairs", "Lengths", "Vocabulary", "Samples", "Configuration"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 3


def test_a_source_of_empty_sentences_and_an_odd_name(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more [bold]"
    write_pairs(more, "train", ["", ""], ["leer", "leer"])
    config = replace(toy.config, sources={more.name: SourceConfig(path=str(more))})
    folder = prepare(config, toy.tokenizer, toy.outputs, Reporter())
    printed = capsys.readouterr().err.replace("\n", "")
    assert "[bold]" in printed.replace(" ", "")
    check_page((folder / "report.html").read_text(encoding="utf-8"))
