import re
from dataclasses import replace
from pathlib import Path

from data_prep.data_report import quantile
from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import CorpusConfig, TokenizerConfig
from nmt.files import read_lines, write_lines


def report(config: CorpusConfig, tokenizer: TokenizerConfig, outputs: Path) -> str:
    folder = prepare(config, tokenizer, outputs, Reporter(quiet=True))
    return (folder / "report.html").read_text(encoding="utf-8")


def test_report(
    folder_config: CorpusConfig, text_folder: Path, small_tokenizer: TokenizerConfig, tmp_path: Path
) -> None:
    lines = read_lines(text_folder / "train.en")
    write_lines(text_folder / "train.en", [*lines, "", "<script>alert(1)</script> & more"])
    lines = read_lines(text_folder / "train.de")
    write_lines(text_folder / "train.de", [*lines, "<b>leer</b>", "<i>"])
    config = replace(folder_config, name="a&b")
    page = report(config, small_tokenizer, tmp_path / "outputs")
    assert "a&amp;b, en-de" in page
    assert "Of 202 training pairs" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "&lt;b&gt;leer&lt;/b&gt;" in page
    assert "<script" not in page
    # Self-contained: nothing is fetched from anywhere.
    assert not re.search(r"""(src|href)=|url\(|https?:""", page)
    assert "prefers-color-scheme: dark" in page
    for heading in ("Dropped", "Lengths", "Vocabulary", "Samples", "Configuration"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 2


def test_separate_vocabularies(
    folder_config: CorpusConfig, small_tokenizer: TokenizerConfig, tmp_path: Path
) -> None:
    tokenizer = replace(small_tokenizer, joint=False, vocabulary_size=300)
    assert "one vocabulary each" in report(folder_config, tokenizer, tmp_path / "outputs")


def test_quantile() -> None:
    assert quantile({1: 50, 2: 49, 9: 1}, 0.99) == 2
    assert quantile({1: 50, 2: 49, 9: 1}, 1.0) == 9
    assert quantile({3: 1}, 0.5) == 3
