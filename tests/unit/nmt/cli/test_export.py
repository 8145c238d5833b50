from collections.abc import Callable
from pathlib import Path

import ctranslate2
import sentencepiece

DIGITS = Path(__file__).parents[3] / "models" / "digits_v1"


def test_an_export_works_without_this_program(tmp_path: Path, run: Callable[..., None]) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # an earlier export is replaced
        run(f"model={DIGITS}", f"out={out}")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "tokenizer.model"))
    translator = ctranslate2.Translator(str(out))
    [result] = translator.translate_batch(pieces.encode(["3 1 4 5"], out_type=str))
    assert pieces.decode(result.hypotheses[0]) == "5 4 1 3"
    readme = (out / "README.md").read_text(encoding="utf-8")
    code = [line[4:] for line in readme.splitlines() if line.startswith("    ")]
    compile("\n".join(code), "README.md", "exec")
