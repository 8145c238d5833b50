import sys
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

from nmt.cli import export
from nmt.errors import UserError

DIGITS = Path(__file__).parents[3] / "models" / "digits_v1"


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["export", *arguments])
    export.main()


def test_the_folder_needs_nothing_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # an earlier export is replaced
        run(f"model={DIGITS}", f"out={out}", monkeypatch=monkeypatch)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
    translator = ctranslate2.Translator(str(out))
    [result] = translator.translate_batch(pieces.encode(["3 1 4 5"], out_type=str))
    assert pieces.decode(result.hypotheses[0]) == "5 4 1 3"
    readme = (out / "README.md").read_text(encoding="utf-8")
    code = [line[4:] for line in readme.splitlines() if line.startswith("    ")]
    compile("\n".join(code), "README.md", "exec")


def test_what_is_no_export_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        run(f"model={DIGITS}", f"out={tmp_path}", monkeypatch=monkeypatch)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_form_that_is_not_offered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="huggingface"):
        run(f"model={DIGITS}", "format=huggingface", monkeypatch=monkeypatch)
