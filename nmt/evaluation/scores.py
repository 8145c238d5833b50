"""BLEU in three forms, chrF and TER by sacrebleu, each with its signature and interval."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.errors import UserError
from nmt.evaluation.paper_form import LowercaseForm, PaperForm, TokenisedForm

# sacrebleu's default number of resamplings, and a fixed seed (its default too).
_NUM_BOOTSTRAP = 1000

METRIC_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF2++",
    "ter": "TER",
    "paper_bleu": "paper BLEU",
    "lowercase_bleu": "lc BLEU",
    "comet": "COMET",
}
"""Key in `scores.json` → what people call it."""


def column_title(key: str) -> str:
    """What a metric is called at the head of a column: with an arrow where less is better."""
    return METRIC_NAMES[key] + (" ↓" if key == "ter" else "")


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
    """All scores of one set of translations.

    Attributes:
        bleu: on raw text, tokenised by sacrebleu (13a): the figure to quote.
        chrf: chrF2++.
        ter: translation edit rate; lower is better.
        paper_bleu: in the form of "Attention Is All You Need"; see `nmt.evaluation.paper_form`.
        lowercase_bleu: tokenised and lower-cased, as figures on Multi30k; see the same.
        brevity_penalty: of `bleu`: what too short translations cost, 1 where they are not.
        length_ratio: tokens (13a) of the translations over those of the closest references.
        sentences: number of them.
        references: number of reference translations a sentence.
    """

    bleu: Score
    chrf: Score
    ter: Score
    paper_bleu: Score
    lowercase_bleu: Score
    brevity_penalty: float
    length_ratio: float
    sentences: int
    references: int

    def to_json(self) -> dict[str, Any]:
        """The layout of `scores.json`."""
        return asdict(self)

    def by_metric(self) -> dict[str, Score]:
        """The scores alone, by their key in `METRIC_NAMES`."""
        return {key: value for key, value in vars(self).items() if isinstance(value, Score)}


def metrics() -> dict[str, Any]:
    """sacrebleu's metrics on raw text, by their key in `scores.json`."""
    # force: sacrebleu would warn of tokenised text at every computation; we do so once, ourselves.
    return {"bleu": BLEU(force=True), "chrf": CHRF(word_order=2), "ter": TER()}


def bleu_score(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """BLEU (13a) alone, without an interval: what validation goes by."""
    check_aligned(hypotheses, *references)
    metric = BLEU(force=True)
    score = metric.corpus_score(list(hypotheses), [list(some) for some in references]).score
    return Score(score, str(metric.get_signature()))


def bleu_with_interval(hypotheses: Sequence[str], *references: Sequence[str]) -> Score:
    """BLEU (13a) alone, with its interval."""
    check_aligned(hypotheses, *references)
    return _with_interval(metrics()["bleu"], hypotheses, references)[1]


def all_scores(hypotheses: Sequence[str], *references: Sequence[str], language: str) -> Scores:
    """Every score with its interval.

    Args:
        hypotheses: the translations.
        references: one or more sequences, each aligned with the translations.
        language: code of the target language; Moses' tokenisation depends on it.

    Raises:
        UserError: the sides differ in number, or there is nothing to score.
    """
    check_aligned(hypotheses, *references)
    result, bleu = _with_interval(metrics()["bleu"], hypotheses, references)
    return Scores(
        bleu,
        _with_interval(metrics()["chrf"], hypotheses, references)[1],
        _with_interval(metrics()["ter"], hypotheses, references)[1],
        _tokenised_bleu(PaperForm(language), hypotheses, references),
        _tokenised_bleu(LowercaseForm(language), hypotheses, references),
        result.bp,
        result.ratio,
        len(hypotheses),
        len(references),
    )


def _tokenised_bleu(
    form: TokenisedForm, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    # multi-bleu.perl, which the papers' figures come from, smooths nothing.
    metric = BLEU(lowercase=form.is_lowercase, tokenize="none", force=True, smooth_method="none")
    sides = ([form.text(line) for line in some] for some in (hypotheses, *references))
    ours, *theirs = sides
    _, score = _with_interval(metric, ours, theirs)
    return replace(score, signature=f"{score.signature}|{form.signature}")


def _with_interval(
    metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Any, Score]:
    """sacrebleu's own result, and ours."""
    sides = [list(some) for some in references]
    metric._compute_score_from_stats = _python_floats(metric._compute_score_from_stats)
    result = metric.corpus_score(list(hypotheses), sides, n_bootstrap=_NUM_BOOTSTRAP)
    # People compare the signature of the plain score; bootstrapping adds fields of its own.
    metric.n_bootstrap = metric.seed = None
    return result, Score(result.score, str(metric.get_signature()), float(result._ci))


def _python_floats(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A resample without any match scores a float, others a float32: sacrebleu fails on both."""

    def computed(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    return computed


def check_aligned(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raise UserError unless there is something to score and all sides are equally long."""
    for some in references:
        if len(hypotheses) != len(some):
            raise UserError(f"{len(hypotheses)} translations for {len(some)} references")
    if not hypotheses:
        raise UserError("nothing to score: the test set is empty")
