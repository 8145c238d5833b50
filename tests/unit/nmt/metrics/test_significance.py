from functools import partial

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from nmt.base.errors import UserError
from nmt.metrics import significance
from nmt.metrics.significance import NO_DIFFERENCE, Difference, compare, format_p
from tests.support import random_words, with_noise

REFERENCES = random_words(60, 3)
noisy = partial(with_noise, REFERENCES)


@pytest.fixture(scope="module")
def comparison() -> dict[str, Difference]:
    return compare(noisy(0.4, 1), noisy(0.05, 2), REFERENCES)


def test_clear_difference_is_significant_in_both_directions(
    comparison: dict[str, Difference],
) -> None:
    down = compare(noisy(0.05, 2), noisy(0.4, 1), REFERENCES)
    for key in ("bleu", "chrf", "ter"):  # TER is better when it is lower
        assert comparison[key].verdict == "better"
        assert down[key].verdict == "worse"
    bleu = comparison["bleu"]
    assert bleu.difference == -down["bleu"].difference > 0
    assert comparison["ter"].difference < 0
    assert bleu.p < 0.001


def test_equally_noisy_systems_do_not_differ() -> None:
    found = compare(noisy(0.2, 1), noisy(0.2, 2), REFERENCES)
    assert found["bleu"].verdict == NO_DIFFERENCE
    assert found["bleu"].difference != 0


def test_identical_translations_do_not_differ() -> None:
    """sacrebleu reports p = 0.0001 here."""
    found = compare(noisy(0.2, 1), noisy(0.2, 1), REFERENCES)
    for difference in found.values():
        assert difference.verdict == NO_DIFFERENCE
        assert (difference.difference, difference.p) == (0, 1)


def test_difference_below_rounding_is_not_significant(monkeypatch: pytest.MonkeyPatch) -> None:
    """No 4-gram matches, so BLEU consists of smoothing; p is low for a negligible difference."""
    monkeypatch.setattr(significance, "metrics", lambda *_: {"bleu": BLEU()})
    references = [f"{n} a{n} b{n} c{n} d{n}" for n in range(1000)]
    worse = [f"{n} x y z u v w q" if n < 1 else "x y z u v w q o" for n in range(1000)]
    better = [f"{n} x y z u v w q" if n < 12 else "x y z u v w q o" for n in range(1000)]
    found = compare(worse, better, references)["bleu"]
    assert 0 < found.difference < 0.005
    assert found.p < 0.05
    assert found.verdict == NO_DIFFERENCE


def test_p_equals_sacrebleu() -> None:
    before, after = noisy(0.2, 1), noisy(0.16, 2)
    systems = [("a", before), ("b", after)]
    found = compare(before, after, REFERENCES)
    bleu = found["bleu"]
    for kind, ours in (("bs", bleu.p_bootstrap), ("ar", bleu.p_randomisation)):
        _, scores = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES], test_type=kind)()
        assert ours == scores["BLEU"][1].p_value
    assert bleu.p == max(bleu.p_bootstrap, bleu.p_randomisation)
    assert "bs:1000|" in bleu.signatures[0]
    assert "ar:10000|" in bleu.signatures[1]


def test_each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = BLEU()
    extract = metric._compute_segment_statistics
    sentences = []

    def counted(hypothesis: str, references: object) -> object:
        sentences.append(hypothesis)
        return extract(hypothesis, references)

    monkeypatch.setattr(metric, "_compute_segment_statistics", counted)
    monkeypatch.setattr(significance, "metrics", lambda *_: {"bleu": metric})
    compare(noisy(0.2, 1), noisy(0.2, 2), REFERENCES)
    assert len(sentences) == 2 * len(REFERENCES)


@pytest.mark.parametrize(("p", "text"), [(0.0009, "< 0.001"), (0.001, "0.001"), (0.25, "0.250")])
def test_p_is_formatted_with_three_decimals(p: float, text: str) -> None:
    assert format_p(p) == text


def test_all_references_are_used() -> None:
    other = [line.replace("a", "z") for line in REFERENCES]
    one = compare(noisy(0.3, 1), other, REFERENCES)["bleu"]
    two = compare(noisy(0.3, 1), other, REFERENCES, other)["bleu"]
    assert two.baseline + two.difference == pytest.approx(100)
    assert one.baseline + one.difference < 100


def test_different_lengths_are_rejected() -> None:
    with pytest.raises(UserError, match="60 translations for 59 references"):
        compare(REFERENCES[:59], REFERENCES, REFERENCES)


def test_tokens_are_those_of_the_language() -> None:
    """With 13a, each sentence is one token, so that no difference has a BLEU above 0."""
    references = [f"我{number}号昨天在北京买了一本红色的书。" for number in range(40)]
    worse = [line.replace("红色", "蓝色") for line in references]
    found = compare(worse, references, references, tokenizer="zh")["bleu"]
    assert found.verdict == "better"
    assert 50 < found.baseline < 95
    assert all("|tok:zh|" in signature for signature in found.signatures)
