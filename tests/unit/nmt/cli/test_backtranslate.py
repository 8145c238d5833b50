import sys
from pathlib import Path

import pytest

from nmt.cli import backtranslate
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.trained_model import TrainedModel, save_trained_model


@pytest.fixture(scope="module")
def model_folder(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_trained_model(trained_model, folder, {})
    return folder


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["backtranslate", *arguments])
    backtranslate.main()


def test_pairs_are_tagged_and_empty_lines_left_out(
    trained_model: TrainedModel,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The model translates en into de, so it makes sources of a corpus de-en.
    (tmp_path / "mono.en").write_text("Kalo mine.\n\nZuve ra!\n")
    run(f"file={tmp_path}/mono.en", f"model={model_folder}", monkeypatch=monkeypatch)
    folder = tmp_path / "mono.en.back"
    assert (folder / "train.en").read_text() == "Kalo mine.\nZuve ra!\n"
    translator = Translator(trained_model, trained_model.config.decoding)
    found = [best[0].text for best in translator.translate(["Kalo mine.", "Zuve ra!"])]
    expected = "".join(f"<BT> {text.strip()}\n" for text in found)
    assert (folder / "train.de").read_text() == expected
    assert sorted(path.name for path in folder.iterdir()) == ["train.de", "train.en"]
    assert "2 pairs; 1 lines gave none" in capsys.readouterr().err
    out = tmp_path / "out"
    run(
        *(f"file={tmp_path}/mono.en", f"model={model_folder}", f"out={out}", "tag="),
        monkeypatch=monkeypatch,
    )
    assert (out / "train.de").read_text() == expected.replace("<BT> ", "")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["file=mono.de"], "mono.de is de by its name, and the model translates en into de"),
        (["file=mono.en", "tag=a b"], "tag='a b' has white space"),
        (["file=none.en"], "none.en: no such file"),
        ([], "file= is missing"),
    ],
)
def test_what_users_can_mend(
    arguments: list[str],
    told: str,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("mono.de", "mono.en"):
        (tmp_path / name).write_text("Kalo.\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=told):
        run(*arguments, f"model={model_folder}", monkeypatch=monkeypatch)
