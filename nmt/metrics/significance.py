"""Significance of the difference between two systems, by two paired tests of sacrebleu.

The tests are bootstrap resampling (Koehn 2004) and approximate randomisation (Riezler and Maxwell
2005). The verdict is "better" or "worse" only if p < 0.05 in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sacrebleu.significance import PairedTest

from nmt.config import DEFAULT_TOKENIZER
from nmt.metrics.scores import LOWER_IS_BETTER, METRIC_NAMES, check_scorable, metrics

LEVEL = 0.05
# A smaller difference is printed as 0.00, so the verdict ignores it, however low p is.
_LEAST_DIFFERENCE = 0.005

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
        signatures: sacrebleu's signatures of both tests, with the number of trials and the seed.
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


def format_difference(difference: float) -> str:
    """Format a difference with its sign: `+0.53`, `−1.20`."""
    return f"{difference:+.2f}".replace("-", "−")


def format_p(p: float) -> str:
    """Format a p-value: `0.003`, or `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def compare(
    baseline: Sequence[str],
    hypotheses: Sequence[str],
    *references: Sequence[str],
    tokenizer: str = DEFAULT_TOKENIZER,
) -> dict[str, Difference]:
    """Test the difference between translations and a baseline in each metric on raw text."""
    check_scorable(hypotheses, *references, baseline)
    by_metric = metrics(references[0], tokenizer)
    for metric in by_metric.values():
        # Both tests use the same counts; extracting them takes most of the time.
        metric._extract_corpus_statistics = cache(metric._extract_corpus_statistics)
    systems = [("baseline", tuple(baseline)), ("system", tuple(hypotheses))]
    lines = tuple(map(tuple, references))  # tuples, because the cache needs hashable arguments
    (bs_signatures, bs), (ar_signatures, ar) = (
        PairedTest(systems, by_metric, lines, test_type=kind)() for kind in ("bs", "ar")
    )
    differences = {}
    for key in by_metric:
        name = METRIC_NAMES[key]
        before, after = bs[name]
        difference = float(after.score) - float(before.score)
        # For equal translations, sacrebleu reports a low p, because no sample differs more.
        ps: tuple[float, float] = (after.p_value, ar[name][1].p_value) if difference else (1.0, 1.0)
        verdict = NO_DIFFERENCE
        if max(ps) < LEVEL and abs(difference) >= _LEAST_DIFFERENCE:
            verdict = "better" if (difference > 0) != (key in LOWER_IS_BETTER) else "worse"
        signatures = [str(bs_signatures[name]), str(ar_signatures[name])]
        differences[key] = Difference(float(before.score), difference, *ps, verdict, signatures)
    return differences
