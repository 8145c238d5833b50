from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel
from nmt.translation.translator import Translator

Run = Callable[..., None]


def test_sources_are_tagged_and_empty_lines_left_out(
    trained_model: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], run: Run
) -> None:
    # The model translates en into de, so it makes sources of a corpus de-en.
    Path("mono.en").write_text("Kalo mine.\n\nZuve ra!\n")
    run("file=mono.en")
    folder = tmp_path / "mono.en.back"
    assert (folder / "train.en").read_text() == "Kalo mine.\nZuve ra!\n"
    translator = Translator(trained_model, trained_model.config.decoding)
    found = [best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!"])]
    expected = "".join(f"<BT> {text.strip()}\n" for text in found)
    assert (folder / "train.de").read_text() == expected
    assert sorted(path.name for path in folder.iterdir()) == ["train.de", "train.en"]
    assert "2 pairs; 1 lines without one" in capsys.readouterr().err
    out = tmp_path / "out"
    run(*("file=mono.en", f"out={out}", "tag="))
    assert (out / "train.de").read_text() == expected.replace("<BT> ", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["file=mono.de"], "are de-de by their names, but the model translates en-de"),
        (["file=none.en"], "none.en: no such file"),
        ([], "file= is missing"),
    ],
)
def test_invalid_arguments_are_reported(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name in ("mono.de", "mono.en"):
        (tmp_path / name).write_text("Kalo.\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        run(*arguments)
