"""Is one system better than another, or may chance have made the difference?

Two paired tests of sacrebleu: bootstrap resampling (Koehn 2004) and approximate randomisation
(Riezler and Maxwell 2005). Their verdict is "better" or "worse" only where both say p < 0.05.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.significance import PairedTest

from nmt.evaluation.scores import check_aligned, metrics

LEVEL = 0.05

LEAST_DIFFERENCE = 0.005
"""Scores that print alike differ by nothing, however sure that is: BLEU of 0.0001 and of 0.0002."""

NO_DIFFERENCE = "no difference can be shown"

_LOWER_IS_BETTER = ("ter",)


@dataclass(frozen=True)
class Difference:
    """What tells a system from its baseline by one metric.

    Attributes:
        baseline: the baseline's score.
        difference: the system's score less the baseline's.
        p_bootstrap: of the paired bootstrap.
        p_randomisation: of approximate randomisation.
        verdict: `better`, `worse`, or `no difference can be shown`.
    """

    baseline: float
    difference: float
    p_bootstrap: float
    p_randomisation: float
    verdict: str

    @property
    def p(self) -> float:
        """The larger of both: the chance at most of so large a difference between equals."""
        return max(self.p_bootstrap, self.p_randomisation)

    @property
    def in_words(self) -> str:
        """`better, p = 0.003`."""
        if self.verdict == NO_DIFFERENCE:
            return self.verdict
        return f"{self.verdict}, p {'< 0.001' if self.p < 0.001 else f'= {self.p:.3f}'}"


@dataclass(frozen=True)
class Comparison:
    """A system against a baseline on one test set.

    Attributes:
        baseline: the baseline's name.
        why: how it was chosen.
        differences: by metric's key in `scores.json`.
        signatures: of both tests, with the number of trials and the seed, by metric.
    """

    baseline: str
    why: str
    differences: dict[str, Difference]
    signatures: dict[str, list[str]]

    def to_json(self) -> dict[str, Any]:
        """For `scores.json`."""
        return {
            "system": self.baseline,
            "why": self.why,
            **{
                key: {**asdict(difference), "signatures": self.signatures[key]}
                for key, difference in self.differences.items()
            },
        }


def compare(
    baseline: str,
    why: str,
    baseline_hypotheses: Sequence[str],
    hypotheses: Sequence[str],
    *references: Sequence[str],
) -> Comparison:
    """Test a system against a baseline by every metric.

    Args:
        baseline: its name.
        why: how it was chosen, for the record.
        baseline_hypotheses: its translations.
        hypotheses: the system's.
        references: one or more sequences.

    Raises:
        UserError: the sides differ in number.
    """
    check_aligned(hypotheses, *references, baseline_hypotheses)
    systems = [("baseline", list(baseline_hypotheses)), ("system", list(hypotheses))]
    sides = [list(some) for some in references]
    differences, signatures = {}, {}
    for key in metrics():
        found = [_test(kind, key, systems, sides) for kind in ("bs", "ar")]
        (before, after, p_bootstrap, _), (*_, p_randomisation, _) = found
        differences[key] = _difference(key, before, after, (p_bootstrap, p_randomisation))
        signatures[key] = [signature for *_, signature in found]
    return Comparison(baseline, why, differences, signatures)


def _test(
    kind: str, key: str, systems: list[tuple[str, list[str]]], references: list[list[str]]
) -> tuple[float, float, float, str]:
    """The baseline's score, the system's, p, and the test's signature."""
    signatures, scores = PairedTest(systems, {key: metrics()[key]}, references, test_type=kind)()
    (name,) = signatures
    before, after = scores[name]
    return float(before.score), float(after.score), float(after.p_value), str(signatures[name])


def _difference(key: str, before: float, after: float, p: tuple[float, float]) -> Difference:
    difference = after - before
    if not difference:
        # sacrebleu calls a difference of nothing significant: no resample shows a larger one.
        p = (1.0, 1.0)
    verdict = NO_DIFFERENCE
    if max(p) < LEVEL and abs(difference) >= LEAST_DIFFERENCE:
        verdict = "better" if (difference > 0) != (key in _LOWER_IS_BETTER) else "worse"
    return Difference(before, difference, *p, verdict)
