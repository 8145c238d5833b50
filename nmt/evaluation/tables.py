"""Scores as tables and lines for the terminal and for log files, readable at 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nmt.base.errors import one_line
from nmt.config import DecodingConfig, search_keys
from nmt.evaluation.evaluate import Evaluation
from nmt.metrics.scores import METRIC_NAMES, Score, column_title
from nmt.metrics.significance import format_p

# Keys of the search that are always reported.
_ALWAYS_REPORTED = tuple(
    f"decoding.{key}"
    for key in ("beam_size", "length_penalty", "max_length_ratio", "max_length_offset")
)

_TEXT_COLUMNS = {
    *("system", "test set", "metric", "verdict", "phenomenon"),
    *("source", "reference", "translation"),
    *("single values", "combination"),
}


def print_scores(console: Console, evaluations: Sequence[Evaluation]) -> None:
    """Print all tables of one system's test sets, or of several systems on one test set."""
    if not evaluations:
        return
    tables = [phenomena_table(evaluation) for evaluation in evaluations if evaluation.phenomena]
    tables.append(scores_table(evaluations))
    if any(evaluation.comparison for evaluation in evaluations):
        tables.append(comparison_table(evaluations))
    for table in tables:
        console.print(table)
        console.print()
    for line in note_lines(evaluations):
        console.print(line, markup=False, soft_wrap=True)


def scores_table(evaluations: Sequence[Evaluation]) -> Table:
    """Create a table with a row for each evaluation and the interval below each score."""
    first = evaluations[0]
    if _has_systems(evaluations):
        title = f"{first.test_set.name}, {first.scores.sentences:,} sentences"
    else:
        title = "Scores" + (f" of {first.system}" if first.system else "")
    with_comet = any(evaluation.comet.score for evaluation in evaluations)
    names = [column_title(key).replace(" BLEU", "\nBLEU") for key in first.scores.by_metric()]
    names += ["brevity\npenalty", "length\nratio", *(["COMET"] if with_comet else [])]
    title += "; ± is half the 95 % bootstrap interval"
    table = empty_table(title, _kind(evaluations), *names)
    for evaluation in evaluations:
        scores, comet = evaluation.scores, evaluation.comet.score
        cells = [_with_interval(score) for score in scores.by_metric().values()]
        cells += [f"{scores.brevity_penalty:.3f}", f"{scores.length_ratio:.3f}"]
        cells += [f"{comet.score:.4f}" if comet else "–"] if with_comet else []
        label = _label(evaluation, evaluations)
        if not _has_systems(evaluations):
            label = f"{label}\n{scores.sentences:,} sentences"
        table.add_row(_text(label), *cells)
    return table


def comparison_table(evaluations: Sequence[Evaluation]) -> Table:
    """Create a table with the difference to the baseline in each metric."""
    names = dict.fromkeys(one.comparison.baseline for one in evaluations if one.comparison)
    title = f"Compared with {', '.join(names)}"
    columns = ("metric", "baseline", "difference", "p", "verdict")
    table = empty_table(title, _kind(evaluations), *columns)
    for evaluation in evaluations:
        label = _label(evaluation, evaluations)
        differences = evaluation.comparison.differences if evaluation.comparison else {}
        for key, found in differences.items():
            difference = f"{found.difference:+.2f}".replace("-", "−")
            cells = (f"{found.baseline:.2f}", difference, format_p(found.p), found.verdict)
            table.add_row(_text(label), column_title(key), *cells)
            label = ""
    return table


def phenomena_table(evaluation: Evaluation) -> Table:
    """Create a table with a row for each phenomenon that the test set is annotated with."""
    assert evaluation.phenomena is not None
    system = f", {evaluation.system}" if evaluation.system else ""
    title = f"{evaluation.test_set.name}{system}: scores by phenomenon"
    table = empty_table(title, "phenomenon", "sentences", "BLEU", "checked", "correct")
    for name, score in evaluation.phenomena.phenomena.items():
        accuracy = "–" if score.accuracy is None else f"{score.accuracy:.1f} %"
        cells = (f"{score.sentences:,}", f"{score.bleu:.1f}", f"{score.checked:,}", accuracy)
        table.add_row(_text(name), *cells)
    return table


def sample_table(evaluation: Evaluation, number: int) -> Table:
    """Create a table of evenly spaced sentences with reference and translation."""
    test_set = evaluation.test_set
    table = empty_table(f"Translations of {test_set.name}", "source", "reference", "translation")
    size = len(evaluation.hypotheses)
    for index in sorted({size * i // number for i in range(number)} if size else ()):
        lines = (test_set.sources[index], test_set.references[index], evaluation.hypotheses[index])
        table.add_row(*map(_text, lines))
    return table


def note_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """Write the lines below the tables: baseline, warnings, search, signatures; each once."""
    leakages = [evaluation.test_set.leakage for evaluation in evaluations]
    # Models trained on different text have seen different parts of the test set.
    has_texts = _has_systems(evaluations) and any(one != leakages[0] for one in leakages)
    lines = []
    for evaluation in evaluations:
        if evaluation.comparison is not None:
            lines.append(f"baseline: {evaluation.comparison.baseline}, {evaluation.comparison.why}")
        elif evaluation.not_compared:
            lines.append(f"not compared: {evaluation.not_compared}")
        lines += _test_set_lines(evaluation, has_texts)
        if evaluation.engine:
            lines.append(f"{_label(evaluation, evaluations)}: search engine {evaluation.engine}")
    searches = {one.system: describe_search(one.decoding) for one in evaluations}
    if len(set(searches.values())) > 1:
        lines += [f"search of {system}: {search}" for system, search in searches.items()]
    else:
        lines += [f"search: {search}" for search in searches.values()]
    for evaluation in evaluations:
        scores = dict(evaluation.scores.by_metric())
        if evaluation.comet.score is not None:
            scores["comet"] = evaluation.comet.score
        lines += [f"{METRIC_NAMES[key]} {score.signature}" for key, score in scores.items()]
    lines += [evaluation.comet.note for evaluation in evaluations]
    lines += [_group_line(one, _label(one, evaluations)) for one in evaluations]
    return list(dict.fromkeys(one_line(line) for line in lines if line))


def describe_search(decoding: DecodingConfig) -> str:
    """Describe the part of the configuration that affects translations."""
    defaults = search_keys(DecodingConfig())
    others = {
        key: value
        for key, value in search_keys(decoding).items()
        if value != defaults.get(key) and key not in _ALWAYS_REPORTED
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


def describe_leakage(leakage: Mapping[str, Any]) -> str:
    """Describe how many sentences of a test set the training text contains."""
    sides = (
        f"{leakage[side]['exact']:,} of the {side} sentences ({leakage[side]['near']:,} including"
        " near duplicates)"
        for side in ("source", "target")
    )
    return " and ".join(sides)


def bleu_line(name: str, score: float, signature: str) -> str:
    """Format the last line of a run or of an evaluation."""
    return f"{one_line(name)} BLEU {score:.2f}  {signature}"


def _test_set_lines(evaluation: Evaluation, has_texts: bool) -> list[str]:
    test_set, identity = evaluation.test_set, evaluation.identity
    lines = []
    if identity.known_as:
        lines.append(f"{test_set.name} is {identity.known_as}, by the checksum of its references")
    lines += [f"warning: {test_set.name}: {warning}" for warning in identity.warnings]
    if test_set.leakage is not None:
        text = "the training text" + (f" of {evaluation.system}" if has_texts else "")
        lines.append(f"{test_set.name}: {text} contains {describe_leakage(test_set.leakage)}")
    return lines


def _group_line(evaluation: Evaluation, name: str) -> str:
    """Describe the accuracy on minimal pairs; empty if the test set has none."""
    if evaluation.phenomena is None or evaluation.phenomena.groups is None:
        return ""
    groups = evaluation.phenomena.groups
    return (
        f"{name}: both sentences are correct in {groups.accuracy:.1f} % of {groups.groups} minimal"
        f" pairs, {groups.sentence_accuracy:.1f} % of single sentences are correct; always giving"
        f" the most frequent answer: {groups.majority_accuracy:.1f} % and"
        f" {groups.majority_sentence_accuracy:.1f} %"
    )


def _has_systems(evaluations: Sequence[Evaluation]) -> bool:
    return len({evaluation.system for evaluation in evaluations}) > 1


def _kind(evaluations: Sequence[Evaluation]) -> str:
    return "system" if _has_systems(evaluations) else "test set"


def _label(evaluation: Evaluation, evaluations: Sequence[Evaluation]) -> str:
    return evaluation.system if _has_systems(evaluations) else evaluation.test_set.name


def _with_interval(score: Score) -> str:
    interval = "" if score.ci95 is None else f"\n± {score.ci95:.2f}"
    return f"{score.score:.2f}{interval}"


def _text(value: str) -> Text:
    """Create a cell without markup and without control characters."""
    return Text("\n".join(map(one_line, value.split("\n"))))


def empty_table(title: str, *columns: str) -> Table:
    """Create a table whose columns hold numbers, except those in `_TEXT_COLUMNS`."""
    table = Table(
        title=_text(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for name in columns:
        if name in _TEXT_COLUMNS:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    return table
