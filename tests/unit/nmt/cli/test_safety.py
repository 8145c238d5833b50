"""Commands on the folders of strangers and with careless arguments: nothing is lost or obeyed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_json, write_lines
from nmt.cli import score
from nmt.runs.log import console
from nmt.trained_model import load_trained_model
from nmt.translation.forced import PairScore
from nmt.translation.translator import Translator

Run = Callable[..., None]
NEW = "model=outputs/runs/new"
TEXT = "source=a.en", "reference=a.de"


@pytest.fixture(autouse=True)
def _files(outputs: Path) -> None:
    """Outputs with three runs, and a text, in the working folder."""
    for name in ("a.en", "a.de"):
        write_lines(Path(name), ["Kalo mine.", "Zuve ra!"])


def files(folder: Path = Path()) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["../../x", "../x", "{}/x", "..", ".x", ""])
def test_the_corpus_of_a_stranger_is_a_name(name: str, tmp_path: Path, run: Run) -> None:
    shutil.copytree("outputs/corpora/toy-1", "x")
    write_json(Path("outputs/runs/new/environment.json"), {"corpus": name.format(tmp_path)})
    before = files()
    for command in (["evaluate", NEW], ["report", "run=outputs/runs/new"]):
        with pytest.raises(UserError, match=r"new/environment\.json: corpus=.* is not a plain"):
            run(*command)
    assert files() == before


@pytest.mark.parametrize("part", ["text", "text/test.en", "text/test.de"])
def test_text_outside_of_a_corpus_is_not_read(part: str, run: Run) -> None:
    path = Path("outputs/corpora/toy-1", part)
    path.rename("private")
    path.symlink_to(Path("private").absolute())
    before = files()
    with pytest.raises(UserError, match="leads out of its folder"):
        run("evaluate", NEW, "out=out")
    assert files() == before


def test_the_validation_text_of_a_stranger_is_not_read_outside_of_its_corpus(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree("outputs/corpora/toy-1", "outputs/corpora/toy-2")
    write_json(Path("outputs/runs/good/environment.json"), {"corpus": "toy-2"})
    path = Path("outputs/corpora/toy-2/text/valid.en")
    path.unlink()
    path.symlink_to("/dev/zero")
    Path("outputs/runs/good").rename("outputs/runs/good\x1b[31m")
    run("evaluate", NEW, "out=out")
    [message] = caplog.messages
    assert r"outputs/runs/good\x1b[31m is not compared with: " in message
    assert "valid.en: leads out of its folder" in message


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model", "config.yaml"])
def test_a_broken_baseline_is_named_and_stops_no_evaluation_of_another(
    name: str,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("outputs/runs/good/model", name).write_text("broken")
    monkeypatch.setattr(console, "_width", 1000)
    run("evaluate", NEW, "out=out")
    printed = [*capsys.readouterr().err.splitlines(), *caplog.messages]
    [line] = [line for line in printed if f"good/model/{name}: " in line]
    assert "not compared" in line
    assert Path("out/scores.json").exists()
    with pytest.raises(UserError, match=f"good/model/{name}: ") as error:
        run("evaluate", NEW, "out=named", "baseline=outputs/runs/good")
    assert "\n" not in str(error.value)
    assert not Path("named").exists()


@pytest.mark.parametrize("name", ["train.de.part", "train.en.part", "train.de.part.json"])
def test_backtranslation_keeps_files_of_the_user(name: str, run: Run) -> None:
    Path("out").mkdir()
    Path("out", name).write_text("mine")
    before = files()
    for more in ([], ["resume=false"]):
        with pytest.raises(UserError, match=rf"out/{name}: .*choose another file with out="):
            run("backtranslate", NEW, "file=a.en", "out=out", *more)
    assert files() == before


FOLDERS = ["outputs/runs/new/model", "outputs/runs/new", "outputs/corpora/toy-1", "."]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("command", ["evaluate", "export", "backtranslate file=a.en"])
def test_an_output_folder_that_is_read_loses_nothing(folder: str, command: str, run: Run) -> None:
    before = files()
    name, *given = command.split()
    try:
        run(name, NEW, *given, f"out={folder}")
    except UserError as error:
        assert "name another folder with out=" in str(error)  # noqa: PT017 - or it is harmless
        assert files() == before
    assert before.items() <= files().items()
    load_trained_model(Path("outputs/runs/new"))


@pytest.mark.parametrize("name", ["weights.safetensors", "config.yaml", "tokenizer.model"])
@pytest.mark.parametrize("command", ["translate file=a.en", "score source=a.en target=a.de"])
def test_no_output_replaces_a_file_of_the_model(name: str, command: str, run: Run) -> None:
    before = files()
    for model in (NEW, f"{NEW}/model"):
        with pytest.raises(UserError, match=f"{name}: would overwrite .*model, which is read"):
            run(*command.split(), model, f"out=outputs/runs/new/model/{name}")
    assert files() == before


@pytest.mark.parametrize("name", ["a.en", "a.de"])
@pytest.mark.parametrize("change", ["more", "fewer", "other"])
def test_scores_of_a_text_that_changes_meanwhile_are_not_written(
    name: str, change: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("a.en", "a.de"):
        write_lines(Path(text), ["Kalo mine."] * 2000)  # more than a chunk

    def scored(model: object, chunk: list[object], *more: object) -> list[PairScore]:
        write_lines(Path(name), ["Ra!"] * {"more": 4000, "fewer": 2, "other": 2000}[change])
        return [PairScore([-1.0], -1.0, -1.0)] * len(chunk)

    monkeypatch.setattr(score, "score_pairs", scored)
    with pytest.raises(UserError, match=f"{name}: was changed while it was read"):
        run("score", NEW, *TEXT[:1], "target=a.de")
    assert not Path("a.de.scores.tsv").exists()


def test_a_test_set_that_changes_meanwhile_is_scored_as_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files()
    translate_all = Translator.translate

    def changed(self: Translator, *arguments: object) -> object:
        write_lines(Path("a.en"), ["other"])
        write_lines(Path("a.de"), ["other"])
        return translate_all(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", changed)
    run("evaluate", NEW, *TEXT, "out=out")
    for given, stored in (("a.en", "source.txt"), ("a.de", "reference.txt")):
        assert Path("out", stored).read_bytes() == before[Path(given)]
