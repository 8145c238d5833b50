"""Scores as tables and lines for the terminal, readable at 100 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from nmt.config import DecodingConfig, search_keys
from nmt.evaluation.evaluate import Evaluation
from nmt.evaluation.scores import METRIC_NAMES, Score, Scores, column_title

_BESIDE_BLEU = ("chrf", "ter")
# Keys that every line on a search tells, whatever their value.
_IN_WORDS = tuple(
    f"decoding.{key}"
    for key in ("beam_size", "length_penalty", "max_length_ratio", "max_length_offset")
)


def scores_table(evaluations: Sequence[Evaluation]) -> Table:
    """One row a test set of one system, or a system on one test set; every score has a column.

    Below each score stands half of its 95 % interval; below the verdict, by how much BLEU differs.
    """
    of_systems = len({evaluation.system for evaluation in evaluations}) > 1
    first = evaluations[0]
    if of_systems:
        title = f"{first.test_set.name}, {first.scores.sentences:,} sentences"
    else:
        title = "Scores" + (f" of {first.system}" if first.system else "")
    table = Table(
        title=f"{title} (± half of the 95 % bootstrap interval)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("system" if of_systems else "test set", overflow="fold")
    with_comet = any(evaluation.comet.score for evaluation in evaluations)
    names = [column_title(key).replace(" BLEU", "\nBLEU") for key in first.scores.by_metric()]
    names += ["brevity\npenalty", "length\nratio", *(["COMET"] if with_comet else [])]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    with_verdict = any(evaluation.comparison for evaluation in evaluations)
    if with_verdict:
        table.add_column(
            "BLEU against baseline", min_width=len("better, p = 0.003"), overflow="fold"
        )
    for evaluation in evaluations:
        cells = _cells(evaluation.scores)
        if with_comet:
            cells.append(_comet(evaluation))
        if with_verdict:
            cells.append(_verdict(evaluation))
        table.add_row(_label(evaluation, of_systems), *cells)
    return table


def _label(evaluation: Evaluation, of_systems: bool) -> Text:
    if of_systems:
        return Text(evaluation.system)
    test_set = evaluation.test_set
    sentences = evaluation.scores.sentences
    return Text(f"{test_set.name}\n{sentences:,} sentence{'' if sentences == 1 else 's'}")


def _cells(scores: Scores) -> list[str]:
    cells = [_two_lines(score) for score in scores.by_metric().values()]
    return [*cells, f"{scores.brevity_penalty:.3f}", f"{scores.length_ratio:.3f}"]


def _comet(evaluation: Evaluation) -> str:
    return "–" if evaluation.comet.score is None else f"{evaluation.comet.score.score:.4f}"


def _verdict(evaluation: Evaluation) -> str:
    if evaluation.comparison is None:
        return "" if evaluation.not_compared else "the baseline"
    bleu = evaluation.comparison.differences["bleu"]
    return f"{bleu.in_words}\n{bleu.difference:+.2f} on {bleu.baseline:.2f}"


def _two_lines(score: Score) -> str:
    interval = "" if score.ci95 is None else f"\n± {score.ci95:.2f}"
    return f"{score.score:.2f}{interval}"


def note_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """What a reader of the table has to know, each line once."""
    of_systems = len({evaluation.system for evaluation in evaluations}) > 1
    leakages = [evaluation.test_set.leakage for evaluation in evaluations]
    # Models of other training text have seen other parts of the test set.
    of_texts = of_systems and any(leakage != leakages[0] for leakage in leakages)
    lines = []
    for evaluation in evaluations:
        name = evaluation.system if of_systems else evaluation.test_set.name
        lines += [*_comparison_lines(evaluation, name), *_test_set_lines(evaluation, of_texts)]
        lines += [f"{name}: searched by {evaluation.engine}"] if evaluation.engine else []
    searches = {one.system: search_in_words(one.decoding) for one in evaluations}
    if len(set(searches.values())) > 1:
        lines += [f"search of {system}: {search}" for system, search in searches.items()]
    else:
        lines += [f"search: {search}" for search in searches.values()]
    for evaluation in evaluations:
        found = evaluation.scores.by_metric()
        lines += [f"{METRIC_NAMES[key]} {score.signature}" for key, score in found.items()]
        if evaluation.comet.score is not None:
            lines.append(f"COMET {evaluation.comet.score.signature}")
    lines += [evaluation.comet.note for evaluation in evaluations]
    lines += [group_line(evaluation, of_systems) for evaluation in evaluations]
    return list(dict.fromkeys(filter(None, lines)))


def _comparison_lines(evaluation: Evaluation, name: str) -> list[str]:
    comparison = evaluation.comparison
    if comparison is None:
        reason = evaluation.not_compared
        return [f"not compared: {reason}"] if reason else []
    others = "; ".join(
        f"{METRIC_NAMES[key]} {comparison.differences[key].in_words}" for key in _BESIDE_BLEU
    )
    bleu = comparison.differences["bleu"]
    return [
        f"baseline: {comparison.baseline}, {comparison.why}",
        # As in the table, which a narrow terminal squeezes.
        f"{name}: BLEU {bleu.in_words}, {bleu.difference:+.2f} on {bleu.baseline:.2f}",
        f"{name}: {others}",
    ]


def search_in_words(decoding: DecodingConfig) -> str:
    """What of the search changes translations."""
    usual = search_keys(DecodingConfig())
    others = {
        key: value
        for key, value in search_keys(decoding).items()
        if value != usual.get(key) and key not in _IN_WORDS
    }
    return ", ".join(
        [
            f"beam {decoding.beam_size}",
            f"length penalty {decoding.length_penalty:g}",
            f"at most {decoding.max_length_ratio:g} × the source + {decoding.max_length_offset}"
            " tokens",
            *(f"{key}={value}" for key, value in others.items()),
        ]
    )


def leakage_in_words(leakage: Mapping[str, Any]) -> str:
    """`5 of its sources, 9 nearly; …`: what the training text holds of a test set."""
    sides = [
        f"{leakage[side]['exact']:,} of its {side}s, {leakage[side]['near']:,} nearly"
        for side in ("source", "target")
    ]
    return "; ".join(sides)


def _test_set_lines(evaluation: Evaluation, of_texts: bool) -> list[str]:
    test_set, identity = evaluation.test_set, evaluation.identity
    lines = []
    if identity.known_as:
        lines.append(f"{test_set.name} is {identity.known_as}, by the checksum of its references")
    lines += [f"warning: {test_set.name}: {warning}" for warning in identity.warnings]
    leakage = test_set.leakage
    if leakage is not None:
        text = "the training text" + (f" of {evaluation.system}" if of_texts else "")
        lines.append(f"{test_set.name}: in {text} {leakage_in_words(leakage)}")
    return lines


def phenomena_table(evaluation: Evaluation) -> Table:
    """One row a phenomenon that the test set is annotated with."""
    assert evaluation.phenomena is not None
    by = f" by {evaluation.system}" if evaluation.system else ""
    title = f"{evaluation.test_set.name}{by}, phenomenon by phenomenon"
    table = Table(title=title, title_justify="left")
    table.add_column("phenomenon")
    for name in ("sentences", "BLEU", "checked", "right"):
        table.add_column(name, justify="right")
    for name, score in evaluation.phenomena.phenomena.items():
        accuracy = "–" if score.accuracy is None else f"{score.accuracy:.1f} %"
        cells = (f"{score.sentences:,}", f"{score.bleu:.1f}", f"{score.checked:,}", accuracy)
        table.add_row(name, *cells)
    return table


def group_line(evaluation: Evaluation, of_systems: bool) -> str:
    """One line on minimal pairs, or "" where the test set has none."""
    if evaluation.phenomena is None or evaluation.phenomena.groups is None:
        return ""
    name = evaluation.test_set.name + (f" by {evaluation.system}" if of_systems else "")
    groups = evaluation.phenomena.groups
    return (
        f"{name}: {groups.accuracy:.1f} % of {groups.groups} minimal pairs have"
        f" both sides right; of single sentences {groups.sentence_accuracy:.1f} %."
        f" Always giving the most frequent answer: {groups.majority_accuracy:.1f} % of pairs,"
        f" {groups.majority_sentence_accuracy:.1f} % of sentences"
    )


def bleu_line(name: str, score: float, signature: str) -> str:
    """The line that a run or an evaluation ends with."""
    return f"{name} BLEU {score:.2f}  {signature}"


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
