"""BLEU in three forms, chrF and TER by sacrebleu, with signatures and confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import _bootstrap_resample, estimate_ci

from nmt.base.errors import UserError, first_line
from nmt.config import DEFAULT_TOKENIZER
from nmt.metrics.linearised import is_linearised
from nmt.metrics.paper_form import TokenisedForm, lowercase_form, paper_form

METRIC_NAMES = {
    "bleu": "BLEU",
    "chrf": "chrF2++",
    "ter": "TER",
    "paper_bleu": "paper BLEU",
    "lowercase_bleu": "lc BLEU",
    "comet": "COMET",
}
"""Key in `scores.json` → name for users; BLEU, chrF2++ and TER are sacrebleu's names."""

LOWER_IS_BETTER = ("ter", "loss")


def column_title(key: str) -> str:
    """Return the column title of a metric or the loss, with an arrow if lower is better."""
    return METRIC_NAMES.get(key, key) + (" ↓" if key in LOWER_IS_BETTER else "")


def format_score(key: str, score: float) -> str:
    """Format a score with two decimals, COMET and the loss with four."""
    return f"{score:.4f}" if key in {"comet", "loss"} else f"{score:.2f}"


@dataclass(frozen=True)
class Score:
    """Value of a metric on a test set.

    Attributes:
        score: BLEU and chrF from 0 to 100, TER from 0 upwards, COMET from 0 to 1.
        signature: sacrebleu's description of the metric, which makes the score reproducible; for
            COMET the name of its model.
        ci95: half the width of the 95 % bootstrap confidence interval; None if not computed.
    """

    score: float
    signature: str
    ci95: float | None = None


@dataclass(frozen=True)
class Scores:
    """All scores of one set of translations.

    Attributes:
        bleu: on raw text, tokenised by sacrebleu; the score to report.
        chrf: chrF2++.
        ter: translation edit rate; lower is better. None where `metrics` leaves it out.
        paper_bleu: in the form of "Attention Is All You Need", see `nmt.metrics.paper_form`. None
            where BLEU has another tokeniser than 13a, because Moses has no rules for the language.
        lowercase_bleu: in the form of Multi30k, see `nmt.metrics.paper_form`; None as `paper_bleu`.
        brevity_penalty: factor of `bleu` for translations that are too short; 1 if they are not.
        length_ratio: tokens of `bleu` of the translations divided by those of the references that
            are closest in length.
        references: number of references per sentence.
        comet: COMET; None if it was not computed.
    """

    bleu: Score
    chrf: Score
    ter: Score | None
    paper_bleu: Score | None
    lowercase_bleu: Score | None
    brevity_penalty: float
    length_ratio: float
    sentences: int
    references: int
    comet: Score | None = None

    def by_metric(self) -> dict[str, Score]:
        """Return the scores by their key in `METRIC_NAMES`."""
        return {key: value for key, value in vars(self).items() if isinstance(value, Score)}


def bleu_metric(tokenizer: str, **options: Any) -> BLEU:
    """Create sacrebleu's BLEU with one of its tokenisers.

    Raises:
        UserError: the tokeniser lacks a package or cannot be downloaded.
    """
    try:
        # `force` turns off warnings about tokenised text; known_test_sets has such warnings.
        return BLEU(force=True, tokenize=tokenizer, **options)
    except (ImportError, RuntimeError, OSError, SystemExit) as error:
        raise UserError(
            f"evaluation.bleu_tokenizer={tokenizer} does not work here: {first_line(error)};"
            " install requirements.txt, or choose another tokeniser, such as char"
        ) from None


def chrf_metric() -> CHRF:
    """Create sacrebleu's chrF2++."""
    return CHRF(word_order=2)


def metrics(references: Sequence[str] = (), tokenizer: str = DEFAULT_TOKENIZER) -> dict[str, Any]:
    """Create sacrebleu's metrics on raw text, by their key in `METRIC_NAMES`.

    TER counts words. In Chinese and Japanese they are characters. TER is left out for other text
    without blanks between words, and for linearised trees, whose few symbols can be shifted in so
    many ways that TER takes a second per sentence.
    """
    found: dict[str, Any] = {"bleu": bleu_metric(tokenizer), "chrf": chrf_metric()}
    if tokenizer == "char" or (references and all(map(is_linearised, references))):
        return found
    is_asian = tokenizer in ("zh", "ja-mecab")
    return {**found, "ter": TER(normalized=is_asian, asian_support=is_asian)}


def bleu_score(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    tokenizer: str = DEFAULT_TOKENIZER,
    with_interval: bool = False,
) -> Score:
    """Compute BLEU. The confidence interval takes longer, so validation omits it."""
    check_scorable(hypotheses, *references)
    return _score(bleu_metric(tokenizer), hypotheses, references, with_interval)[0]


def sentence_chrf(translations: Sequence[str], *references: Sequence[str]) -> list[float]:
    """Compute chrF2++ of each sentence, 0 to 100."""
    metric = chrf_metric()
    return [
        float(metric.sentence_score(translation, list(alternatives)).score)
        for translation, *alternatives in zip(translations, *references, strict=True)
    ]


def all_scores(
    hypotheses: Sequence[str],
    *references: Sequence[str],
    language: str,
    tokenizer: str = DEFAULT_TOKENIZER,
) -> Scores:
    """Compute every score except COMET, with confidence intervals.

    Args:
        hypotheses: the translations.
        references: sets of references, aligned with the translations.
        language: code of the target language, for Moses' tokenisation.
        tokenizer: sacrebleu's name of the tokeniser of BLEU.

    Raises:
        UserError: the sequences differ in length or are empty.
    """
    check_scorable(hypotheses, *references)
    found = {
        key: _score(metric, hypotheses, references)
        for key, metric in metrics(references[0], tokenizer).items()
    }
    bleu, details = found["bleu"]
    forms = (paper_form, lowercase_form) if tokenizer == DEFAULT_TOKENIZER else ()
    more = {form: _tokenised_bleu(form(language), hypotheses, references) for form in forms}
    return Scores(
        bleu,
        found["chrf"][0],
        found["ter"][0] if "ter" in found else None,
        more.get(paper_form),
        more.get(lowercase_form),
        details.bp,
        details.ratio,
        len(hypotheses),
        len(references),
    )


def check_scorable(hypotheses: Sequence[str], *references: Sequence[str]) -> None:
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
    score, _ = _score(metric, hypotheses, references)
    return replace(score, signature=f"{score.signature}|{form.signature}")


def _score(
    metric: Any,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    with_interval: bool = True,
) -> tuple[Score, Any]:
    """Return the score and sacrebleu's result, which has further details.

    `Metric.corpus_score` with `n_bootstrap` is not used. It fails if only some resamples have a
    match (chrF) or a reference that is not empty (TER), and it adds the bootstrap to the signature.
    """
    statistics = metric._extract_corpus_statistics(hypotheses, references)
    result = metric._aggregate_and_compute(statistics)
    interval = None
    if with_interval:
        _, samples = _bootstrap_resample(statistics, metric)
        scores = np.array([sample.score for sample in samples], dtype=float)
        interval = float(estimate_ci(scores)[1])
    return Score(result.score, str(metric.get_signature()), interval), result
