"""BLEU, chrF and TER by sacrebleu, each with its signature and interval."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.errors import UserError

# sacrebleu's default number of resamplings, and a fixed seed (its default too).
_NUM_BOOTSTRAP = 1000


@dataclass(frozen=True)
class Score:
    """A metric over a test set.

    Attributes:
        score: the metric, in its own unit (BLEU and chrF 0 to 100, TER 0 upwards).
        signature: sacrebleu's, which makes the score reproducible.
        ci95: half the width of the 95 % bootstrap confidence interval; None where it was not asked.
    """

    score: float
    signature: str
    ci95: float | None = None


@dataclass(frozen=True)
class Scores:
    """All scores of one set of translations."""

    bleu: Score
    chrf: Score
    ter: Score
    sentences: int

    def to_json(self) -> dict[str, Any]:
        """The layout of `scores.json`."""
        return {
            "bleu": asdict(self.bleu),
            "chrf": asdict(self.chrf),
            "ter": asdict(self.ter),
            "sentences": self.sentences,
        }


def bleu_score(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU alone, without an interval: what validation goes by."""
    _check(hypotheses, references)
    metric = BLEU()
    score = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(score, str(metric.get_signature()))


def all_scores(hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """BLEU (13a), chrF2++ and TER with intervals.

    Raises:
        UserError: the two sides differ in number, or there is nothing to score.
    """
    _check(hypotheses, references)
    bleu, chrf, ter = (
        _with_interval(metric, hypotheses, references)
        for metric in (BLEU(), CHRF(word_order=2), TER())
    )
    return Scores(bleu, chrf, ter, len(hypotheses))


def _with_interval(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    # People compare the signature of the plain score; bootstrapping would add fields of its own.
    metric.corpus_score(list(hypotheses), [list(references)])
    signature = str(metric.get_signature())
    metric._compute_score_from_stats = _python_floats(metric._compute_score_from_stats)
    result = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=_NUM_BOOTSTRAP)
    return Score(result.score, signature, float(result._ci))


def _python_floats(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A resample without any match scores a float, others a float32: sacrebleu fails on both."""

    def computed(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    return computed


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise UserError(f"{len(hypotheses)} translations for {len(references)} references")
    if not references:
        raise UserError("nothing to score: the test set is empty")
