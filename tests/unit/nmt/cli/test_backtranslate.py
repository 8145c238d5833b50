from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.trained_model import TrainedModel
from nmt.translation.translator import Translator


def test_sources_are_tagged_and_empty_lines_left_out(
    trained_model: TrainedModel, capsys: pytest.CaptureFixture[str], run: Callable[..., None]
) -> None:
    # The model translates en into de, so it makes sources of a corpus de-en.
    Path("mono.en").write_text("Kalo mine.\n\nZuve ra!\n")
    run("file=mono.en")
    folder = Path("mono.en.back")
    assert (folder / "train.en").read_text() == "Kalo mine.\nZuve ra!\n"
    translator = Translator(trained_model, trained_model.config.decoding)
    found = [best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!"])]
    expected = "".join(f"<BT> {text.strip()}\n" for text in found)
    assert (folder / "train.de").read_text() == expected
    assert sorted(path.name for path in folder.iterdir()) == ["train.de", "train.en"]
    assert "2 pairs; 1 lines without one" in capsys.readouterr().err
    run("file=mono.en", "out=out", "tag=")
    assert Path("out/train.de").read_text() == expected.replace("<BT> ", "")
