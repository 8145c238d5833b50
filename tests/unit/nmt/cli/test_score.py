import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.trained_model import load_trained_model
from nmt.translation.forced import score_pairs
from nmt.translation.translator import Translator
from tests.support import reversed_digits

Run = Callable[..., None]


def test_scores_of_translations_equal_those_of_search() -> None:
    model = load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")
    texts = [source for source, _ in reversed_digits(20, 1)]
    config = model.config.decoding
    found = [best[0] for best in Translator(model, config).translate(texts)]
    pairs = [(text, each.text) for text, each in zip(texts, found, strict=True)]
    scores = score_pairs(model, pairs, config)
    for each, translation in zip(scores, found, strict=True):
        assert each is not None
        [hypothesis] = translation.hypotheses
        assert each.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert each.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_one_line_per_pair_and_a_summary(capsys: pytest.CaptureFixture[str], run: Run) -> None:
    Path("a.en").write_text("Kalo mine.\n\n" + "ka " * 40 + "\n")
    Path("a.de").write_text("Zuve\nra\nso\n")
    given = ["source=a.en", "target=a.de"]
    run(*given)
    run(*given, "format=jsonl")
    lines = Path("a.de.scores.tsv").read_text().split("\n")
    records = list(map(json.loads, Path("a.de.scores.jsonl").read_text().splitlines()))
    assert lines[2:] == ["\t\t\t", ""]
    assert records[2]["score"] is None
    for line, record in zip(lines, records[:2], strict=False):
        log_prob, tokens, perplexity, normalised = map(float, line.split("\t"))
        assert log_prob == pytest.approx(record["log_prob"], abs=1e-5)
        assert tokens == len(record["token_log_probs"])
        assert perplexity == pytest.approx(record["perplexity"], rel=1e-5)
        assert normalised == pytest.approx(record["score"], abs=1e-5)
    printed = capsys.readouterr().err
    assert "2 pairs, " in printed
    assert "1 pairs too long for the model" in printed


def test_files_of_different_length_are_rejected(run: Run) -> None:
    Path("a.en").write_text("Kalo.\nMine.\n")
    Path("a.de").write_text("Zuve\n")
    with pytest.raises(UserError, match=r"a\.en has 2 lines and .*a\.de has 1;"):
        run(*("source=a.en", "target=a.de"))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("decoding.patience=1", "decoding.patience has no effect on scores"),
        ("out=.", "is a folder"),
        (
            "target=a.fr",
            r"a\.en and a\.fr are en-fr by their names, but the model translates en-de",
        ),
        ("", r"a\.de\.scores\.tsv already exists"),
    ],
)
def test_invalid_arguments_are_reported(
    argument: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de", "a.fr", "a.de.scores.tsv"):
        Path(name).write_text("x\n")
    arguments = ["source=a.en", "target=a.de", *argument.split()]
    with pytest.raises(UserError, match=message):
        run(*arguments)
    assert Path("a.de.scores.tsv").read_text() == "x\n"
