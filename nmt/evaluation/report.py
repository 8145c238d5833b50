"""Report of a run as a self-contained HTML page.

The page shows the scores, the training curves, single translations, attention maps, the
configuration and the environment. It is made from the files of the run, of its baseline and of its
corpus, so it can be made again at any time.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import write_texts
from nmt.config import differing_values, flattened
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.attention_page import ShownSentence, attention_maps
from nmt.evaluation.baseline import NO_BASELINE, Baseline, find_baseline
from nmt.evaluation.charts import Chart, Series, line_chart
from nmt.evaluation.sentences import describe_test_set
from nmt.evaluation.tables import describe_leakage
from nmt.metrics.scores import METRIC_NAMES, column_title, format_score
from nmt.metrics.significance import format_difference, format_p
from nmt.metrics.terms import DEFINITION
from nmt.pages.html_page import relative_link, render
from nmt.run_folder import Run, StoredTexts, series
from nmt.trained_model import TrainedModel
from nmt.translation.attention import sentence_attention, short_sentences

_TEMPLATE = Path(__file__).with_name("templates") / "run.html.jinja"

_NUM_ATTENTION_MAPS = 3

# Keys that state where a run is stored; the report does not list them as differences.
_LOCATION_KEYS = ("run.", "run_id", "corpus.path")

# Title, unit, keys of `metrics.jsonl`, and whether the axis may be logarithmic.
_CURVES = (
    ("Loss", "nats per target token", ("train/loss", "valid/loss"), False),
    ("Validation perplexity", "", ("valid/perplexity",), True),
    ("Validation BLEU", "BLEU", ("valid/bleu",), False),
    ("Learning rate", "", ("train/learning_rate",), False),
    ("Gradient norm", "before clipping", ("train/gradient_norm",), True),
    ("Speed", "target tokens per second", ("train/target_tokens_per_second",), False),
)
_FROM_BASELINE = ("config", "environment", "metrics")
"""What the report reads of the run that is the baseline."""

# Name and colour of a curve, by the beginning of its key.
_NAMES = {"train": ("training", "source"), "valid": ("validation", "target")}


def write_report(
    run: Run, result: Mapping[str, Any], model: TrainedModel, corpus: PreparedCorpus | None
) -> Path:
    """Write the report of a run to its folder, and return its path.

    `result` has the contents of `result.json`, which may not be written yet. `corpus` is None if it
    no longer exists.
    """
    baseline = find_baseline(run, corpus) if corpus else None
    why = NO_BASELINE if corpus else "the corpus of the run no longer exists"
    if baseline:
        why = baseline.why
        try:
            _ = [getattr(baseline.system.run, name, None) for name in _FROM_BASELINE]
        except UserError as error:
            # A damaged baseline does not prevent the report of this run.
            why = f"{baseline.system.name} cannot be read: {one_line(error)}"
            baseline = None
    # Test sets may have been evaluated after the run was completed.
    result = {**result, "test_sets": {**result["test_sets"], **run.evaluations}}
    texts = [run.texts(name) for name in result["test_sets"]]
    shown: list[ShownSentence] = []
    for first in texts[:1]:
        indices = short_sentences(model, first.sources, first.hypotheses, _NUM_ATTENTION_MAPS)
        pairs = [(first.sources[i], first.hypotheses[i]) for i in indices]
        shown = [(*pair, sentence_attention(model, *pair)) for pair in pairs]
    path = run.folder / layout.REPORT_FILE
    write_texts({path: report_page(run, result, texts, baseline, why, shown, corpus)})
    return path


def report_page(
    run: Run,
    result: Mapping[str, Any],
    test_sets: Sequence[StoredTexts],
    baseline: Baseline | None,
    why: str,
    shown: Sequence[ShownSentence] = (),
    corpus: PreparedCorpus | None = None,
) -> str:
    """Render the report.

    Args:
        run: the run.
        result: contents of `result.json`.
        test_sets: the texts of each test set.
        baseline: the system to compare with.
        why: how the baseline was chosen, or why there is none.
        shown: the sentences with attention maps.
        corpus: the corpus; None if it no longer exists.
    """
    name = baseline.system.name if baseline else ""
    other = baseline.system.run if baseline else None
    # The model that a run was trained from was in general validated on another text.
    curve_of = None if baseline is None or baseline.is_initial else other
    context = {
        "run": run,
        "result": result,
        "why": why,
        "manifest": corpus.manifest if corpus else None,
        "links": _links(run, other, corpus),
        "compared_with": name,
        "metrics": METRIC_NAMES,
        "column_title": column_title,
        "format_score": format_score,
        "format_difference": format_difference,
        "format_p": format_p,
        "describe_leakage": describe_leakage,
        "definition_of_terms": DEFINITION,
        "charts": _curves(run, curve_of, name),
        "test_sets": [
            describe_test_set(texts, _baseline_name(result, texts.name)) for texts in test_sets
        ],
        "attention": attention_maps(shown) if shown else None,
        "config": _rows(run.settings),
        "environment": _rows(run.environment),
    }
    if other is not None:
        context["config_differences"] = _differences(run.settings, other.settings)
        context["environment_differences"] = _differences(run.environment, other.environment)
    return render(_TEMPLATE, context)


def _links(run: Run, baseline: Run | None, corpus: PreparedCorpus | None) -> dict[str, str]:
    """Return the addresses of other pages, relative to that of the run."""

    def report_of(other: Run | PreparedCorpus | None) -> str:
        return relative_link(run.folder, other.folder / layout.REPORT_FILE) if other else ""

    return {
        "baseline": report_of(baseline),
        "corpus": report_of(corpus),
        # The page of a sweep is written when its runs have ended.
        "sweep": f"../{layout.REPORT_FILE}" if run.sweep else "",
    }


def _baseline_name(result: Mapping[str, Any], test_set: str) -> str:
    """Return the name of the baseline whose translations of a test set are stored."""
    return str(result["test_sets"][test_set].get("baseline", {}).get("system", ""))


def _curves(run: Run, baseline: Run | None, baseline_name: str) -> list[Chart]:
    charts = []
    for title, unit, keys, may_be_log in _CURVES:
        curves = []
        for key in keys:
            prefix = key.partition("/")[0]
            name, colour = _NAMES[prefix]
            curves.append(Series(name, colour, *series(run.metrics, key)))
            if baseline is not None and prefix == "valid":
                name = f"{name} of {baseline_name}"
                curves.append(Series(name, "baseline", *series(baseline.metrics, key)))
        chart = line_chart(title, unit, [curve for curve in curves if curve.x], may_be_log)
        charts += [chart] if chart else []
    return charts


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, _format_value(value)) for key, value in flattened(values).items()]


def _differences(run: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the keys that differ, except locations, each with its values in run and baseline."""
    return [
        (key, *map(_format_value, values))
        for key, values in differing_values(run, baseline).items()
        if not key.startswith(_LOCATION_KEYS)
    ]


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
