"""Significance of the difference between two systems, by two paired tests of sacrebleu.

The tests are bootstrap resampling (Koehn 2004) and approximate randomisation (Riezler and Maxwell
2005). The verdict is "better" or "worse" only if p < 0.05 in both.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from nmt.metrics.scores import check_aligned, metrics

_LEVEL = 0.05
# A smaller difference disappears in rounding, such as BLEU of 0.0001 and 0.0002, however low p is.
_LEAST_DIFFERENCE = 0.005
_LOWER_IS_BETTER = ("ter",)
# sacrebleu's names of bootstrap resampling and approximate randomisation.
_TESTS = ("bs", "ar")

NO_DIFFERENCE = "no difference can be shown"


@dataclass(frozen=True)
class Difference:
    """Difference between a system and its baseline in one metric.

    Attributes:
        baseline: the baseline's score.
        difference: the system's score minus the baseline's.
        p_bootstrap: p of the paired bootstrap.
        p_randomisation: p of approximate randomisation.
        verdict: `better`, `worse`, or `NO_DIFFERENCE`.
        signatures: sacrebleu's, of both tests, with the number of trials and the seed.
    """

    baseline: float
    difference: float
    p_bootstrap: float
    p_randomisation: float
    verdict: str
    signatures: list[str]

    @property
    def p(self) -> float:
        """The larger p of both tests."""
        return max(self.p_bootstrap, self.p_randomisation)


@dataclass(frozen=True)
class Comparison:
    """Comparison of a system with a baseline on one test set, by metric."""

    baseline: str
    why: str
    differences: dict[str, Difference]

    def to_json(self) -> dict[str, Any]:
        """Convert to the layout of `scores.json`."""
        by_metric = {key: asdict(difference) for key, difference in self.differences.items()}
        return {"system": self.baseline, "why": self.why, **by_metric}


def format_p(p: float) -> str:
    """Format a p-value: `0.003`, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def compare(
    baseline: str,
    why: str,
    baseline_hypotheses: Sequence[str],
    hypotheses: Sequence[str],
    *references: Sequence[str],
) -> Comparison:
    """Test the difference between a system and a baseline, by name, in every metric."""
    check_aligned(hypotheses, *references, baseline_hypotheses)
    systems = [("baseline", list(baseline_hypotheses)), ("system", list(hypotheses))]
    lists = [list(lines) for lines in references]
    differences = {}
    for key, metric in metrics().items():
        # Both tests use the same counts; extracting them takes most of the time.
        metric._extract_corpus_statistics = _cached(metric._extract_corpus_statistics)
        tests = [PairedTest(systems, {key: metric}, lists, test_type=kind)() for kind in _TESTS]
        # The only signature of each test, and the results of its only metric.
        signatures = [str(*found.values()) for found, _ in tests]
        (before, after), (_, after_ar) = (list(results.values())[1] for _, results in tests)
        difference = float(after.score) - float(before.score)
        # sacrebleu reports a low p for equal scores, because no sample differs more.
        ps: tuple[float, float] = (after.p_value, after_ar.p_value) if difference else (1.0, 1.0)
        verdict = NO_DIFFERENCE
        if max(ps) < _LEVEL and abs(difference) >= _LEAST_DIFFERENCE:
            verdict = "better" if (difference > 0) != (key in _LOWER_IS_BETTER) else "worse"
        differences[key] = Difference(float(before.score), difference, *ps, verdict, signatures)
    return Comparison(baseline, why, differences)


def _cached(extract: Callable[..., Any]) -> Callable[..., Any]:
    """Make sacrebleu extract the counts of each list of translations once."""
    statistics: dict[int, Any] = {}

    def extract_once(hypotheses: list[str], references: Any) -> Any:
        if id(hypotheses) not in statistics:
            statistics[id(hypotheses)] = extract(hypotheses, references)
        return statistics[id(hypotheses)]

    return extract_once
