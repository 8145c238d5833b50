"""Parsing as translation: a treebank, its trees as text, and their score."""

import json
from pathlib import Path

import pytest

from benchmarks import parsing, treebank
from benchmarks.brackets import read_linearised
from nmt.base.errors import UserError
from nmt.base.files import read_lines, write_lines
from nmt.config import DecodingConfig
from nmt.translation.request import Request
from nmt.translation.translator import Translator
from tests.support import tiny_trained_model, train_tokenizer

TREEBANK = """
( (S
    (NP-SBJ (DT The) (NN cat))
    (VP (VBD sat)
      (NP (-NONE- *T*-1)))
    (. .)))
(NP (NN x))
"""
FORMS = ["(S (NP XX XX )NP (VP XX )VP XX )S", "(NP XX )NP"]


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A treebank of two trees as text: test.en, test.lin and test.tree."""
    (tmp_path / "wsj.mrg").write_text(TREEBANK, encoding="utf-8")
    arguments = [f"trees={tmp_path / 'wsj.mrg'}", f"out={tmp_path / 'test'}"]
    monkeypatch.setattr("sys.argv", ["treebank", *arguments])
    treebank.main()
    return tmp_path / "test.tree"


def test_a_treebank_becomes_text(trees: Path) -> None:
    assert read_lines(trees.with_suffix(".en")) == ["The cat sat .", "x"]
    assert read_lines(trees.with_suffix(".lin")) == FORMS
    assert [tree.words for _, tree in treebank.read_treebank(trees)] == [
        ["The", "cat", "sat", "."],
        ["x"],
    ]


def scored(
    trees: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], *runs: list[str]
) -> dict[str, dict[str, float]]:
    folders = [trees.parent / f"run{number}" for number in range(len(runs))]
    for folder, hypotheses in zip(folders, runs, strict=True):
        write_lines(folder / "config.yaml", ["corpus: {name: toy, direction: en-lin}"])
        texts = {"source": sources, "reference": FORMS, "hypotheses": hypotheses}
        for name, lines in texts.items():
            write_lines(folder / "evaluation" / "test" / f"{name}.txt", lines)
    out = trees.parent / "out.json"
    arguments = [f"runs={' '.join(map(str, folders))}", f"trees={trees}", f"out={out}"]
    monkeypatch.setattr("sys.argv", ["parsing", *arguments])
    parsing.main()
    runs_found = json.loads(out.read_text(encoding="utf-8"))["runs"]
    return {name: found["all"] for name, found in runs_found.items()}


def test_f1_of_runs(
    trees: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = read_lines(trees.with_suffix(".en"))
    # S 0-3 and NP 0-2 match of three constituents, and NP 0-1.
    wrong = ["(S (NP XX XX )NP XX XX )S", "(NP XX )NP"]
    found = scored(trees, monkeypatch, sources, FORMS, wrong)
    assert [run["f1"] for run in found.values()] == [100, pytest.approx(600 / 7)]
    assert "92.86 ± 10.10" in capsys.readouterr().err
    with pytest.raises(UserError, match="run0: its test set test has other sentences"):
        scored(trees, monkeypatch, ["another", "x"], FORMS)
    with pytest.raises(UserError, match=r"translation 2: .*; set decoding\.trees=true"):
        scored(trees, monkeypatch, sources, [FORMS[0], "(NP XX XX )NP"])


def test_translations_are_trees_over_the_words_of_any_source(tmp_path: Path) -> None:
    symbols = [f"\u2581{symbol}" for symbol in ("XX", "(S", ")S", "(NP", ")NP")]
    words = ["The cat sat .", "a longer sentence with -LRB- some -RRB- words", "x"]
    path = train_tokenizer(
        tmp_path / "tokenizer.model",
        [*words, *FORMS],
        330,
        byte_fallback=True,
        user_defined_symbols=symbols,
    )
    model = tiny_trained_model(path)
    config = DecodingConfig(trees=True, max_length_ratio=0.0, max_length_offset=9)
    translator = Translator(model, config)
    sources = [*words, "unseen  Ünïcode 猫 (NP", " ".join("ab" * 9)]
    for source, (best,) in zip(sources, translator.translate(sources), strict=True):
        words = source.split()
        read_linearised(best.text, words, words)
    with pytest.raises(UserError, match=r"decoding\.trees=true supports no prefix"):
        translator.translate([Request("x", prefix="(S")])
    translator = Translator(tiny_trained_model(path, max_length=32), config)
    with pytest.raises(UserError, match=r"a tree over 30 words has at least 33 tokens, but"):
        translator.translate([" ".join("a" * 30)])
