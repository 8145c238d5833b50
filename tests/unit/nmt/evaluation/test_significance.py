import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest

from nmt.errors import UserError
from nmt.evaluation import significance
from nmt.evaluation.significance import Difference, compare

CHANCE = random.Random(3)
REFERENCES = [" ".join(CHANCE.choices("abcdefghij", k=12)) for _ in range(60)]


def noisy(share: float, seed: int) -> list[str]:
    """The references with some words replaced."""
    chance = random.Random(seed)
    return [
        " ".join("z" if chance.random() < share else word for word in line.split())
        for line in REFERENCES
    ]


def test_a_clear_difference_is_told_either_way_round() -> None:
    worse, better = noisy(0.4, 1), noisy(0.05, 2)
    up = compare("base", "because", worse, better, REFERENCES)
    down = compare("base", "because", better, worse, REFERENCES)
    for key in ("bleu", "chrf", "ter"):  # TER is better when it is lower
        assert up.differences[key].verdict == "better"
        assert down.differences[key].verdict == "worse"
    assert up.differences["bleu"].difference == -down.differences["bleu"].difference > 0
    assert up.differences["ter"].difference < 0
    assert up.differences["bleu"].in_words == "better, p < 0.001"


def test_equally_noisy_systems_show_no_difference() -> None:
    found = compare("base", "because", noisy(0.2, 1), noisy(0.2, 2), REFERENCES)
    assert found.differences["bleu"].in_words == "no difference can be shown"
    assert found.differences["bleu"].difference != 0


def test_a_system_is_no_better_than_itself() -> None:
    """sacrebleu itself would say p = 0.0001 here."""
    found = compare("base", "because", noisy(0.2, 1), noisy(0.2, 1), REFERENCES)
    for difference in found.differences.values():
        assert difference.verdict == "no difference can be shown"
        assert (difference.difference, difference.p) == (0, 1)


def test_scores_that_print_alike_show_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """No four words in a row match: BLEU is all smoothing, and surely higher by next to nothing."""
    monkeypatch.setattr(significance, "metrics", lambda: {"bleu": BLEU()})
    references = [f"{n} a{n} b{n} c{n} d{n}" for n in range(1000)]
    worse = [f"{n} x y z u v w q" if n < 1 else "x y z u v w q o" for n in range(1000)]
    better = [f"{n} x y z u v w q" if n < 12 else "x y z u v w q o" for n in range(1000)]
    found = compare("base", "because", worse, better, references).differences["bleu"]
    assert 0 < found.difference < 0.005
    assert found.p < 0.05
    assert found.in_words == "no difference can be shown"


def test_p_is_sacrebleus() -> None:
    before, after = noisy(0.2, 1), noisy(0.16, 2)
    systems = [("a", before), ("b", after)]
    found = compare("a", "because", before, after, REFERENCES)
    bleu = found.differences["bleu"]
    for kind, ours in (("bs", bleu.p_bootstrap), ("ar", bleu.p_randomisation)):
        _, scores = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES], test_type=kind)()
        assert ours == scores["BLEU"][1].p_value
    assert bleu.p == max(bleu.p_bootstrap, bleu.p_randomisation)
    assert "bs:1000|" in found.signatures["bleu"][0]
    assert "ar:10000|" in found.signatures["bleu"][1]


def test_both_tests_have_to_agree() -> None:
    assert Difference(20, 1, 0.04, 0.06, "no difference can be shown").in_words == (
        "no difference can be shown"
    )
    assert Difference(20, 1, 0.001, 0.003, "better").in_words == "better, p = 0.003"


def test_all_references_take_part() -> None:
    other = [line.replace("a", "z") for line in REFERENCES]
    one = compare("a", "x", noisy(0.3, 1), other, REFERENCES).differences["bleu"]
    two = compare("a", "x", noisy(0.3, 1), other, REFERENCES, other).differences["bleu"]
    assert two.baseline + two.difference == pytest.approx(100)
    assert one.baseline + one.difference < 100


def test_sides_that_differ_in_number_are_refused() -> None:
    with pytest.raises(UserError, match="60 translations for 59 references"):
        compare("a", "x", REFERENCES[:59], REFERENCES, REFERENCES)


def test_the_layout_in_the_file() -> None:
    table = compare("base", "because", noisy(0.4, 1), noisy(0.05, 2), REFERENCES).to_json()
    assert (table["system"], table["why"]) == ("base", "because")
    assert set(table["bleu"]) == {
        "baseline",
        "difference",
        "p_bootstrap",
        "p_randomisation",
        "verdict",
        "signatures",
    }
