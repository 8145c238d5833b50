import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.cli import score
from nmt.decoding.translator import Translator
from nmt.errors import UserError
from nmt.trained_model import TrainedModel, load_trained_model, save_trained_model
from tests.support import reversed_digits


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["score", *arguments])
    score.main()


@pytest.fixture(scope="module")
def model_folder(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_trained_model(trained_model, folder, {})
    return folder


def test_the_searchs_own_outputs_get_its_scores() -> None:
    model = load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")
    texts = [source for source, _ in reversed_digits(20, 1)]
    config = model.config.decoding
    found = [best[0] for best in Translator(model, config).translate(texts)]
    pairs = [(text, each.text) for text, each in zip(texts, found, strict=True)]
    scores = score.pair_scores(model, pairs, config)
    for each, translation in zip(scores, found, strict=True):
        assert each is not None
        [hypothesis] = translation.hypotheses
        assert each.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert each.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_a_line_a_pair_and_a_summary(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.en").write_text("Kalo mine.\n\n" + "ka " * 40 + "\n")
    (tmp_path / "a.de").write_text("Zuve\nra\nso\n")
    given = [f"source={tmp_path}/a.en", f"target={tmp_path}/a.de", f"model={model_folder}"]
    run(*given, monkeypatch=monkeypatch)
    run(*given, "format=jsonl", monkeypatch=monkeypatch)
    lines = (tmp_path / "a.de.scores.tsv").read_text().split("\n")
    told = list(map(json.loads, (tmp_path / "a.de.scores.jsonl").read_text().splitlines()))
    assert lines[2:] == ["\t\t\t", ""]
    assert told[2]["score"] is None
    for line, record in zip(lines, told[:2], strict=False):
        log_prob, tokens, perplexity, normalised = map(float, line.split("\t"))
        assert log_prob == pytest.approx(record["log_prob"], abs=1e-5)
        assert tokens == len(record["token_log_probs"])
        assert perplexity == pytest.approx(record["perplexity"], rel=1e-5)
        assert normalised == pytest.approx(record["score"], abs=1e-5)
    said = capsys.readouterr().err
    assert "2 pairs, " in said
    assert "1 too long, left out" in said


def test_files_of_different_length_are_refused_with_both(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.en").write_text("Kalo.\nMine.\n")
    (tmp_path / "a.de").write_text("Zuve\n")
    with pytest.raises(UserError, match=r"a\.en has 2 lines and .*a\.de has 1;"):
        run(
            *(f"source={tmp_path}/a.en", f"target={tmp_path}/a.de", f"model={model_folder}"),
            monkeypatch=monkeypatch,
        )


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("decoding.coverage_penalty=1", "decoding.coverage_penalty is no matter of scores; take"),
        ("out=.", "is a folder"),
    ],
)
def test_what_would_be_passed_over_is_refused(
    argument: str, told: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x\n")
    given = [f"source={tmp_path}/a", f"target={tmp_path}/a", f"model={model_folder}"]
    with pytest.raises(UserError, match=told):
        run(*given, argument, monkeypatch=monkeypatch)


def test_penalties_of_the_models_search_that_scores_leave_out_are_told(
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = load_trained_model(model_folder)
    searched = replace(model.config.decoding, coverage_penalty=0.5)
    model = replace(model, config=replace(model.config, decoding=searched))
    save_trained_model(model, tmp_path / "model", {})
    (tmp_path / "a").write_text("x\n")
    given = [f"source={tmp_path}/a", f"target={tmp_path}/a", f"model={tmp_path}/model"]
    run(*given, monkeypatch=monkeypatch)
    assert "has decoding.coverage_penalty=0.5, which" in capsys.readouterr().err
