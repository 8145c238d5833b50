"""Scores as tables for the terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from nmt.evaluation.evaluate import Evaluation
from nmt.evaluation.scores import Score


def scores_table(evaluations: Sequence[Evaluation]) -> Table:
    """One row a test set: BLEU, chrF2++ and TER with half-widths of the 95 % interval."""
    table = Table(title="Scores (± half of the 95 % bootstrap interval)", title_justify="left")
    table.add_column("test set")
    for name in ("sentences", "BLEU", "chrF2++", "TER"):
        table.add_column(name, justify="right")
    for evaluation in evaluations:
        scores = evaluation.scores
        cells = [_with_interval(score) for score in (scores.bleu, scores.chrf, scores.ter)]
        table.add_row(evaluation.test_set.name, f"{scores.sentences:,}", *cells)
    return table


def phenomena_table(evaluation: Evaluation) -> Table:
    """One row a phenomenon that the test set is annotated with."""
    assert evaluation.phenomena is not None
    table = Table(title=f"{evaluation.test_set.name} by phenomenon", title_justify="left")
    table.add_column("phenomenon")
    for name in ("sentences", "BLEU", "checked", "right"):
        table.add_column(name, justify="right")
    for name, score in evaluation.phenomena.phenomena.items():
        accuracy = "–" if score.accuracy is None else f"{score.accuracy:.1f} %"
        cells = (f"{score.sentences:,}", f"{score.bleu:.1f}", f"{score.checked:,}", accuracy)
        table.add_row(name, *cells)
    return table


def group_line(evaluation: Evaluation) -> str | None:
    """One line on minimal pairs, where the test set has them."""
    if evaluation.phenomena is None or evaluation.phenomena.groups is None:
        return None
    groups = evaluation.phenomena.groups
    return (
        f"{evaluation.test_set.name}: {groups.accuracy:.1f} % of {groups.groups} minimal pairs have"
        f" both sides right; of single sentences {groups.sentence_accuracy:.1f} %."
        f" Always giving the most frequent answer: {groups.majority_accuracy:.1f} % of pairs,"
        f" {groups.majority_sentence_accuracy:.1f} % of sentences"
    )


def signature_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """sacrebleu's signatures, each once."""
    signatures: dict[str, str] = {}
    for evaluation in evaluations:
        scores = evaluation.scores
        named = {"BLEU": scores.bleu, "chrF2++": scores.chrf, "TER": scores.ter}
        signatures |= {f"{name} {score.signature}": "" for name, score in named.items()}
    return list(signatures)


def bleu_line(name: str, score: float, signature: str) -> str:
    """The line that a run or an evaluation ends with."""
    return f"{name} BLEU {score:.2f}  {signature}"


def _with_interval(score: Score) -> str:
    interval = "" if score.ci95 is None else f" ± {score.ci95:.2f}"
    return f"{score.score:.2f}{interval}"


def sample_table(evaluation: Evaluation, number: int) -> Table:
    """Evenly spaced sentences of the test set with reference and translation."""
    table = Table(title=f"Translations of {evaluation.test_set.name}", title_justify="left")
    columns: dict[str, list[str]] = {
        "source": evaluation.test_set.sources,
        "reference": evaluation.test_set.references,
        "translation": evaluation.hypotheses,
    }
    for name in columns:
        table.add_column(name, overflow="fold")
    size = len(evaluation.hypotheses)
    for place in sorted({size * i // number for i in range(number)} if size else ()):
        # Text, since rich would take brackets in a plain string for its markup.
        table.add_row(*(Text(column[place]) for column in columns.values()))
    return table
