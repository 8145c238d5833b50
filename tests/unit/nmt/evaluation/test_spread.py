"""Mean and deviation of scores over seeds."""

import math
from typing import Any

import pytest

from nmt.evaluation.spread import Spread, all_scores


def result(bleu: float, signature: str = "tok:13a", **more: dict[str, Any]) -> dict[str, Any]:
    table = {"bleu": {"score": bleu, "signature": signature}, "sentences": 8, **more}
    return {"valid": {"bleu": bleu + 1, "loss": 2.0}, "test_sets": {"test": table}}


def test_spread_of_three_seeds_and_of_one() -> None:
    spread = Spread.of((24.0, 25.0, 27.0))
    assert spread.mean == pytest.approx(76 / 3)
    assert spread.deviation == pytest.approx(math.sqrt(7 / 3))
    assert spread.format("bleu") == "25.33 ± 1.53"
    assert Spread.of((24.0,)) == Spread((24.0,), 24.0, None)
    assert Spread.of((24.0,)).format("bleu") == "24.00"


def test_only_scores_that_all_seeds_have_are_summarised() -> None:
    comet = {"comet": {"score": 0.8, "signature": "wmt22"}}
    chrf = {"chrf": {"score": 50.0, "signature": "c"}}
    scores = all_scores([result(24, **chrf, **comet), result(26, **chrf)])
    splits = ("valid", "valid", "test", "test")
    assert list(scores) == list(zip(splits, ("bleu", "loss", "bleu", "chrf"), strict=True))
    assert scores["valid", "bleu"].values == (25, 27)
    assert scores["test", "bleu"] == Spread.of((24, 26), "tok:13a")


def test_scores_with_different_signatures_have_no_mean() -> None:
    other = result(24)
    other["test_sets"]["more"] = other["test_sets"]["test"]
    assert ("test", "bleu") not in all_scores([result(24, "a"), result(26, "b")])
    for results in ([result(24), other], [other, result(24)]):
        assert ("more", "bleu") not in all_scores(results)
