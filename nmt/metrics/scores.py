"""BLEU in three forms, chrF and TER by sacrebleu, with signatures and confidence intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from nmt.base.errors import UserError
from nmt.metrics.paper_form import TokenisedForm, lowercase_form, paper_form

# sacrebleu's default number of bootstrap samples; its default seed is fixed.
_NUM_BOOTSTRAP = 1000

METRIC_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF2++",
    "ter": "TER",
    "paper_bleu": "paper BLEU",
    "lowercase_bleu": "lc BLEU",
    "comet": "COMET",
}
"""Key in `scores.json` → name for users."""


def column_title(key: str) -> str:
    """Return the title of a metric's column, with an arrow if lower is better."""
    return METRIC_NAMES[key] + (" ↓" if key == "ter" else "")


@dataclass(frozen=True)
class Score:
    """Value of a metric on a test set.

    Attributes:
        score: BLEU and chrF from 0 to 100, TER from 0 upwards, COMET from 0 to 1.
        signature: sacrebleu's description of the metric, which makes the score reproducible.
        ci95: half the width of the 95 % bootstrap confidence interval; None if not computed.
    """

    score: float
    signature: str
    ci95: float | None = None


@dataclass(frozen=True)
class Scores:
    """All scores of one set of translations.

    Attributes:
        bleu: on raw text, tokenised by sacrebleu (13a); the score to report.
        chrf: chrF2++.
        ter: translation edit rate; lower is better.
        paper_bleu: in the form of "Attention Is All You Need", see `nmt.metrics.paper_form`.
        lowercase_bleu: in the form of Multi30k, see `nmt.metrics.paper_form`.
        brevity_penalty: factor of `bleu` for translations that are too short; 1 if they are not.
        length_ratio: tokens (13a) of the translations divided by those of the closest references.
        sentences: number of sentences.
        references: number of references per sentence.
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

    def by_metric(self) -> dict[str, Score]:
        """Return the scores by their key in `METRIC_NAMES`."""
        return {key: value for key, value in vars(self).items() if isinstance(value, Score)}


def metrics() -> dict[str, Any]:
    """Create sacrebleu's metrics on raw text, by their key in `METRIC_NAMES`."""
    # force: omit sacrebleu's warnings about tokenised text; see `known_test_sets.suspicions`.
    return {"bleu": BLEU(force=True), "chrf": CHRF(word_order=2), "ter": TER()}


def bleu_score(
    hypotheses: Sequence[str], *references: Sequence[str], with_interval: bool = False
) -> Score:
    """Compute BLEU (13a). The confidence interval takes longer, so validation omits it."""
    check_aligned(hypotheses, *references)
    metric = metrics()["bleu"]
    if with_interval:
        return _with_interval(metric, hypotheses, references)[1]
    score = metric.corpus_score(list(hypotheses), [list(lines) for lines in references]).score
    return Score(score, str(metric.get_signature()))


def all_scores(hypotheses: Sequence[str], *references: Sequence[str], language: str) -> Scores:
    """Compute every score with its confidence interval.

    Args:
        hypotheses: the translations.
        references: one or more sequences, each aligned with the translations.
        language: code of the target language, for Moses' tokenisation.

    Raises:
        UserError: the sequences differ in length or are empty.
    """
    check_aligned(hypotheses, *references)
    (result, bleu), (_, chrf), (_, ter) = (
        _with_interval(metric, hypotheses, references) for metric in metrics().values()
    )
    return Scores(
        bleu,
        chrf,
        ter,
        _tokenised_bleu(paper_form(language), hypotheses, references),
        _tokenised_bleu(lowercase_form(language), hypotheses, references),
        result.bp,
        result.ratio,
        len(hypotheses),
        len(references),
    )


def check_aligned(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
    """Raise UserError if the sequences differ in length or are empty."""
    for lines in references:
        if len(hypotheses) != len(lines):
            raise UserError(f"{len(hypotheses)} translations for {len(lines)} references")
    if not hypotheses:
        raise UserError("the test set is empty, so there is nothing to score")


def _tokenised_bleu(
    form: TokenisedForm, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> Score:
    # multi-bleu.perl, which the papers used, does not smooth.
    metric = BLEU(lowercase=form.is_lowercase, tokenize="none", force=True, smooth_method="none")
    hypotheses, *references = (
        [form.convert(line) for line in lines] for lines in (hypotheses, *references)
    )
    _, score = _with_interval(metric, hypotheses, references)
    return replace(score, signature=f"{score.signature}|{form.signature}")


def _with_interval(
    metric: Any, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[Any, Score]:
    """Return sacrebleu's result and the score with its interval."""
    metric._compute_score_from_stats = _with_python_floats(metric._compute_score_from_stats)
    lists = [list(lines) for lines in references]
    result = metric.corpus_score(list(hypotheses), lists, n_bootstrap=_NUM_BOOTSTRAP)
    # Omit the fields of bootstrapping from the signature: the plain score does not depend on them.
    metric.n_bootstrap = metric.seed = None
    return result, Score(result.score, str(metric.get_signature()), float(result._ci))


def _with_python_floats(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Convert scores to float, because sacrebleu fails if a sample without a match is among them.

    Such a sample has a score of type float, the others of type numpy.float32.
    """

    def compute_as_float(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    return compute_as_float
