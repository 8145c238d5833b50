"""Scores as tables and lines for the terminal and for log files, readable at 80 columns."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from nmt.base.errors import one_line
from nmt.base.tables import as_text, new_table
from nmt.config import DecodingConfig, search_keys
from nmt.evaluation.evaluate import Evaluation
from nmt.metrics.scores import METRIC_NAMES, Score, column_title, format_score
from nmt.metrics.significance import format_difference, format_p


def print_scores(console: Console, evaluations: Sequence[Evaluation]) -> None:
    """Print all tables and notes: of one system on its test sets, or of several on one test set."""
    if not evaluations:
        return
    tables = [phenomena_table(evaluation) for evaluation in evaluations if evaluation.phenomena]
    tables.append(scores_table(evaluations))
    if any(evaluation.comparison for evaluation in evaluations):
        tables.append(comparison_table(evaluations))
    # The changed sentences of other test sets and of several systems are in their scores.json.
    if not _has_systems(evaluations) and evaluations[0].comparison:
        tables.append(changed_table(evaluations[0]))
    for table in tables:
        console.print(table)
        console.print()
    for line in note_lines(evaluations):
        console.print(line, markup=False, soft_wrap=True)


def scores_table(evaluations: Sequence[Evaluation]) -> Table:
    """Create a table with a row for each evaluation; the interval is below each score."""
    kind = _kind(evaluations)
    sizes = [f"{evaluation.scores.sentences:,} sentences" for evaluation in evaluations]
    by_metric = [evaluation.scores.by_metric() for evaluation in evaluations]
    keys = [key for key in METRIC_NAMES if any(key in scores for scores in by_metric)]
    columns = [column_title(key).replace(" BLEU", "\nBLEU") for key in keys]
    title = f"Scores of {evaluations[0].system}"
    if _has_systems(evaluations):
        title = f"{evaluations[0].test_set.name}, {sizes[0]}"
    table = new_table(
        f"{title}; ± is half the 95 % bootstrap interval",
        *(kind, *columns, "brevity\npenalty", "length\nratio"),
        texts=[kind],
    )
    for evaluation, found, size in zip(evaluations, by_metric, sizes, strict=True):
        scores = evaluation.scores
        cells = [_with_interval(key, found.get(key)) for key in keys]
        cells += [f"{scores.brevity_penalty:.3f}", f"{scores.length_ratio:.3f}"]
        label = _label(evaluation, evaluations) + ("" if kind == "system" else f"\n{size}")
        table.add_row(as_text(label), *cells)
    return table


def comparison_table(evaluations: Sequence[Evaluation]) -> Table:
    """Create a table of the differences from the baseline in each metric."""
    names = dict.fromkeys(one.comparison.baseline for one in evaluations if one.comparison)
    kind = _kind(evaluations)
    table = new_table(
        f"Compared with {', '.join(names)}",
        *(kind, "metric", "baseline", "difference", "p", "verdict"),
        texts=[kind, "metric", "verdict"],
    )
    for evaluation in evaluations:
        label = _label(evaluation, evaluations)
        differences = evaluation.comparison.differences if evaluation.comparison else {}
        for key, test in differences.items():
            baseline, difference = f"{test.baseline:.2f}", format_difference(test.difference)
            cells = (column_title(key), baseline, difference, format_p(test.p), test.verdict)
            table.add_row(as_text(label), *cells)
            label = ""
    return table


def changed_table(evaluation: Evaluation) -> Table:
    """Create a table of the sentences that differ most from those of the baseline, in chrF2++."""
    assert evaluation.comparison is not None
    texts = ("source", "reference", "baseline", "translation")
    title = f"{evaluation.test_set.name}: the translations that became better or worse by chrF2++"
    rows = [
        (f"{one.chrf_baseline:.1f}\n→ {one.chrf:.1f}", *(getattr(one, name) for name in texts))
        for one in (*evaluation.comparison.better, *evaluation.comparison.worse)
    ]
    return new_table(title, "chrF2++", *texts, texts=texts, rows=rows)


def phenomena_table(evaluation: Evaluation) -> Table:
    """Create a table with a row for each phenomenon that the test set is annotated with."""
    assert evaluation.phenomena is not None
    table = new_table(
        f"{evaluation.test_set.name}, {evaluation.system}: scores by phenomenon",
        *("phenomenon", "sentences", "BLEU", "checked", "correct"),
        texts=["phenomenon"],
    )
    for name, score in evaluation.phenomena.phenomena.items():
        accuracy = "–" if score.accuracy is None else f"{score.accuracy:.1f} %"
        cells = (f"{score.sentences:,}", f"{score.bleu:.1f}", f"{score.checked:,}", accuracy)
        table.add_row(as_text(name), *cells)
    return table


def sample_table(evaluation: Evaluation, number: int) -> Table:
    """Create a table of evenly spaced sentences with reference and translation."""
    test_set, columns = evaluation.test_set, ("source", "reference", "translation")
    lines = list(zip(test_set.sources, test_set.references[0], evaluation.hypotheses, strict=True))
    rows = [lines[i] for i in sorted({len(lines) * i // number for i in range(number)})]
    return new_table(f"Translations of {test_set.name}", *columns, texts=columns, rows=rows)


def note_lines(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the lines below the tables, without repetitions: baseline, search, signatures …"""
    leakages = [evaluation.test_set.leakage for evaluation in evaluations]
    # The training texts of different systems may contain different numbers of test sentences.
    names_system = _has_systems(evaluations) and any(one != leakages[0] for one in leakages)
    lines = []
    for evaluation in evaluations:
        test_set, identity = evaluation.test_set, evaluation.identity
        if evaluation.comparison is not None:
            lines.append(f"baseline: {evaluation.comparison.baseline}, {evaluation.comparison.why}")
            if terms := evaluation.comparison.terms:
                lines.append(f"{_label(evaluation, evaluations)}: {terms}")
        elif evaluation.not_compared:
            lines.append(f"not compared: {evaluation.not_compared}")
        if identity.known_as:
            known_as = f"{identity.known_as}, by the checksum of its references"
            lines.append(f"{test_set.name} is {known_as}")
        lines += [f"warning: {test_set.name}: {warning}" for warning in identity.warnings]
        if blank := sum(not line.strip() for line in evaluation.hypotheses):
            number = f"{blank:,} of {len(evaluation.hypotheses):,} translations"
            lines.append(f"warning: {evaluation.system}: {number} are blank and count as wrong")
        if test_set.leakage is not None:
            text = "the training text" + (f" of {evaluation.system}" if names_system else "")
            lines.append(f"{test_set.name}: {text} contains {describe_leakage(test_set.leakage)}")
        if counts := evaluation.glossary:
            outcomes = ", ".join(
                f"{counts[key]:,} {key}" for key in ("kept", "inflected", "missed")
            )
            lines.append(f"{_label(evaluation, evaluations)}: terms of the glossary: {outcomes}")
        if evaluation.engine:
            lines.append(f"{_label(evaluation, evaluations)}: search engine {evaluation.engine}")
    searches = {one.system: describe_search(one.decoding) for one in evaluations if one.decoding}
    if len(set(searches.values())) > 1:
        lines += [f"search of {system}: {search}" for system, search in searches.items()]
    else:
        lines += [f"search: {search}" for search in searches.values()]
    for evaluation in evaluations:
        scores = evaluation.scores.by_metric().items()
        lines += [f"{METRIC_NAMES[key]} {score.signature}" for key, score in scores]
    lines += [evaluation.comet_note for evaluation in evaluations]
    lines += [_group_line(one, _label(one, evaluations)) for one in evaluations]
    return list(dict.fromkeys(one_line(line) for line in lines if line))


def describe_search(decoding: DecodingConfig) -> str:
    """Describe the search settings that affect translations."""
    values, defaults = search_keys(decoding), search_keys(DecodingConfig())
    described = [
        f"beam {decoding.beam_size}",
        f"length penalty {decoding.length_penalty:g}",
        f"at most {decoding.max_length_ratio:g} × the source + {decoding.max_length_offset} tokens",
    ]
    for key in ("beam_size", "length_penalty", "max_length_ratio", "max_length_offset"):
        del values[f"decoding.{key}"]
    described += [f"{key}={value}" for key, value in values.items() if value != defaults.get(key)]
    return ", ".join(described)


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


def _group_line(evaluation: Evaluation, name: str) -> str:
    """Describe the accuracy on minimal pairs; empty if the test set has none."""
    if evaluation.phenomena is None or evaluation.phenomena.groups is None:
        return ""
    groups = evaluation.phenomena.groups
    return (
        f"{name}: both sentences are correct in {groups.accuracy:.1f} % of {groups.groups} minimal"
        f" pairs; {groups.sentence_accuracy:.1f} % of the sentences are correct; a system that"
        f" always gives the most frequent answer would reach {groups.majority_accuracy:.1f} % of"
        f" pairs and {groups.majority_sentence_accuracy:.1f} % of sentences"
    )


def _has_systems(evaluations: Sequence[Evaluation]) -> bool:
    return len({one.system for one in evaluations}) > 1


def _kind(evaluations: Sequence[Evaluation]) -> str:
    return "system" if _has_systems(evaluations) else "test set"


def _label(evaluation: Evaluation, evaluations: Sequence[Evaluation]) -> str:
    return evaluation.system if _has_systems(evaluations) else evaluation.test_set.name


def _with_interval(key: str, score: Score | None) -> str:
    if score is None:
        return "–"
    interval = "" if score.ci95 is None else f"\n± {score.ci95:.2f}"
    return format_score(key, score.score) + interval
