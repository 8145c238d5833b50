import io
import math
from typing import Any

import pytest
from rich.console import Console

from nmt.errors import UserError
from nmt.evaluation.seeds import Spread, seeds_table, student_quantile, summarise


def result(bleu: float, signature: str = "tok:13a", **more: dict[str, Any]) -> dict[str, Any]:
    table = {"bleu": {"score": bleu, "signature": signature, "ci95": 1.0}, "sentences": 8, **more}
    return {"valid": {"bleu": bleu + 1, "loss": 2.0}, "test_sets": {"test": table}}


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    # Of Student's t, 0.975, as printed tables have it.
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)],
)
def test_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert round(student_quantile(degrees), 3) == quantile


def test_mean_deviation_and_interval_of_three() -> None:
    spread = Spread((24.0, 25.0, 27.0))
    assert spread.mean == pytest.approx(76 / 3)
    assert spread.deviation == pytest.approx(math.sqrt(7 / 3))
    assert spread.ci95 == pytest.approx(4.302653 * math.sqrt(7 / 9), rel=1e-6)


def test_one_seed_has_no_spread() -> None:
    assert Spread((24.0,)).to_json() == {
        "mean": 24.0,
        "deviation": None,
        "ci95": None,
        "values": [24.0],
    }


def test_every_metric_that_all_seeds_have_is_summarised() -> None:
    comet = {"comet": {"score": 0.8, "signature": "wmt22"}}
    chrf = {"chrf": {"score": 50.0, "signature": "c"}}
    summary = summarise("toy", {2: result(24, **chrf, **comet), 1: result(26, **chrf)})
    table = summary.to_json()
    assert table["seeds"] == [2, 1]
    assert table["valid"]["bleu"]["values"] == [25, 27]
    assert list(table["test_sets"]["test"]) == ["bleu", "chrf"]
    assert table["test_sets"]["test"]["bleu"]["mean"] == 25
    assert table["test_sets"]["test"]["bleu"]["signature"] == "tok:13a"


def test_scores_of_different_kinds_have_no_mean() -> None:
    with pytest.raises(UserError, match=r"toy were scored in different ways on test \(a and b\)"):
        summarise("toy", {1: result(24, "a"), 2: result(26, "b")})
    other = result(24)
    other["test_sets"]["more"] = other["test_sets"]["test"]
    with pytest.raises(UserError, match="toy have different test sets"):
        summarise("toy", {1: result(24), 2: other})


def test_the_table_is_readable_at_100_columns() -> None:
    results = {seed: result(24 + seed / 8) for seed in range(1, 6)}
    out = io.StringIO()
    Console(file=out, width=100).print(seeds_table(summarise("toy", results)))
    told = out.getvalue()
    assert "24.38 ± 0.20" in told
    assert "24.13 to 24.62" in told
    assert "24.12, 24.25, 24.38, 24.50, 24.62" in told
    assert max(map(len, told.splitlines())) <= 100
