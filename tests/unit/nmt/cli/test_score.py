import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.trained_model import load_trained_model
from nmt.translation.forced import score_pairs
from nmt.translation.translator import Translator
from tests.support import reversed_digits


def test_scores_of_translations_equal_those_of_search() -> None:
    model = load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")
    texts = [source for source, _ in reversed_digits(20, 1)]
    config = model.config.decoding
    found = [best[0] for best in Translator(model, config).translate(texts)]
    pairs = [(text, each.text) for text, each in zip(texts, found, strict=True)]
    for each, translation in zip(score_pairs(model, pairs, config), found, strict=True):
        assert each is not None
        [hypothesis] = translation.hypotheses
        assert each.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert each.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_one_line_per_pair_and_a_summary(
    capsys: pytest.CaptureFixture[str], run: Callable[..., None]
) -> None:
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
