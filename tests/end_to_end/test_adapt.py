"""A model is adapted to other text, improves on it, and what changed is written."""

import re
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.cli import adapt
from nmt.run_folder import Run
from nmt.runs import adapt as run_module
from nmt.trained_model import load_trained_model
from nmt.translation.translator import Translator
from tests.support import reversed_digits

MODEL = Path(__file__).parents[1] / "models" / "digits_v1"
QUICK = [
    *("training.max_updates=60", "training.validate_every=30", "training.num_threads=1"),
    *("schedule=inverse_square_root", "schedule.peak_learning_rate=1e-2"),
    "schedule.warmup_updates=5",
    *("batching.target_tokens_per_update=400", "prepare.num_processes=1"),
]


def domain_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Digits to reverse, where 7 is called 0."""
    return [(source, target.replace("7", "0")) for source, target in reversed_digits(count, seed)]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TSV file of the domain; beside it a general test set. It is the current folder."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "my.tsv", map("\t".join, domain_pairs(800, 1)))
    for index, language in enumerate(("en", "de")):
        general = reversed_digits(30, 3)
        write_lines(tmp_path / "old" / f"digits.{language}", [pair[index] for pair in general])
        write_lines(tmp_path / "old" / f"train.{language}", [f"{pair[index]}" for pair in general])
    return tmp_path / "my.tsv"


START = f"initial_model={MODEL}"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["adapt", *arguments])
    adapt.main()


@pytest.mark.slow
def test_a_model_is_adapted(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [f"initial_model={MODEL}", "data=my.tsv", "general=old", "corpus.name=mine", *QUICK]
    Path("terms.tsv").write_text("7\t0\n")
    run(monkeypatch, *command, "out=adapted", "glossary=terms.tsv")
    found = Run(tmp_path / "outputs" / "runs" / "digits_v1_my")
    assert list(found.evaluations) == ["general_digits", "test"]
    general, own = (
        cast("dict[str, Any]", scores)["baseline"] for scores in found.evaluations.values()
    )
    assert (general["system"], own["system"]) == ("digits_v1", "digits_v1")
    assert own["bleu"]["difference"] > 5
    assert general["bleu"]["baseline"] == pytest.approx(100)
    assert own["better"][0]["chrf"] > own["better"][0]["chrf_baseline"]
    printed = capsys.readouterr().err
    for name, bleu in (("test", own["bleu"]), ("general_digits", general["bleu"])):
        assert f"\n{name} BLEU: {bleu['baseline']:.2f} before, " in printed
    counts = re.findall(r"\ntest (before|after): terms: (\d+) as in the glossary", printed)
    assert [when for when, _ in counts] == ["before", "after"]
    assert (tmp_path / "adapted" / "forms.tsv").read_text() == ""  # too short for other forms
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    assert "Translations of general_digits" in page
    assert "largest change from digits_v1" in page

    # The copy is an ordinary model folder, whose translations are those that were scored.
    model = load_trained_model(tmp_path / "adapted")
    texts = found.texts("test")
    translations = Translator(model, model.config.decoding).translate(texts.sources)
    assert [best[0].text for best in translations] == texts.hypotheses
    with pytest.raises(UserError, match=r"adapted/.*: was not written by this command"):
        run(monkeypatch, *command, "out=adapted")


@pytest.mark.parametrize("name", ["domain", "a,b", "1e3", "true"])
def test_the_text_may_have_any_name(name: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = Mock()
    monkeypatch.setattr(run_module, "adapt", command)
    given = [f"initial_model={MODEL}", "data=my.tsv", "general=old", "general_weight=0.5"]
    run(monkeypatch, *given, f"corpus.name='{name}'")
    assert command.call_args.args[0].corpus.mixing.weights == {name: 1.0, "general": 0.5}
    run(monkeypatch, *given, f"corpus.name='{name}'", "corpus.mixing.weights.general=2")
    assert command.call_args.args[0].corpus.mixing.weights == {name: 1.0, "general": 2.0}


def test_models_and_text_that_do_not_fit_are_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fr").mkdir()
    for language in ("en", "fr"):
        write_lines(tmp_path / "fr" / f"train.{language}", ["a b"])
    write_lines(tmp_path / "empty.tmx", ["<tmx version='1.4'><body></body></tmx>"])
    write_lines(tmp_path / "half" / "config.yaml", ["format_version: 1"])
    (tmp_path / "half" / "weights.safetensors").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for arguments, message in {
        (
            f"initial_model={MODEL}",
            "data=fr",
        ): "fr has no file of the language de, only en, fr, but",
        (START, "data=empty.tmx"): "empty.tmx: no translation unit has text",
        (
            f"initial_model={MODEL}",
            "data=missing.tmx",
        ): "missing.tmx is neither a folder nor a file",
        (
            f"initial_model={MODEL}",
            "data=my.tsv",
            "general=fr",
        ): "fr has no file of the language de",
        ("initial_model=half", "data=my.tsv"): "config.yaml: lacks the key",
        (
            "initial_model=fr",
            "data=my.tsv",
        ): "fr: is neither a model folder nor a run folder with a model",
        ("data=my.tsv",): "initial_model= is missing",
        (
            f"initial_model={MODEL}",
            "data=my.tsv",
            "lora_rank=4",
        ): "did you mean optimizer.lora_rank",
        (START, "data=my.tsv", "corpus.path=x"): "corpus.path is set by data=",
        (
            f"initial_model={MODEL}",
            "data=my.tsv",
            "training.initial_model=x",
        ): "is set by initial_model=",
        (START, "data=my.tsv", "out=link"): "out=link exists and is not a plain folder",
    }.items():
        with pytest.raises(UserError, match=re.escape(message)) as error:
            run(monkeypatch, *arguments)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "outputs" / "runs").exists()
