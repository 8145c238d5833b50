"""Report of a run as a self-contained HTML page.

The page shows the scores, the training curves, single translations, attention maps, the
configuration and the environment. It is made from the files of the run, of its baseline and of its
corpus, so it can be made again at any time.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.base.files import atomic_writer
from nmt.base.html_page import render
from nmt.base.layout import REPORT_FILE
from nmt.config import differing_values, flattened
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.attention import AttentionMap, attention_map, short_sentences
from nmt.evaluation.charts import Chart, Series, line_chart
from nmt.evaluation.report_sentences import describe_test_set
from nmt.evaluation.run_data import RunData, read_run
from nmt.evaluation.tables import describe_leakage
from nmt.metrics.scores import METRIC_NAMES, column_title
from nmt.metrics.significance import format_p
from nmt.trained_model import TrainedModel

_TEMPLATE = Path(__file__).with_name("templates") / "run.html.jinja"

_NUM_ATTENTION_MAPS = 3

# Keys of the location of a run, which is not a difference between two runs.
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
_NAMES = {"train": ("training", "source"), "valid": ("validation", "target")}


def write_report(
    run: Path,
    result: Mapping[str, Any],
    model: TrainedModel,
    corpus: PreparedCorpus | None,
    outputs: Path,
) -> Path:
    """Write the report of a run to its folder, and return its path.

    Args:
        run: the run folder, in which `result.json` may be missing.
        result: contents of `result.json`.
        model: the trained model, for the attention maps.
        corpus: the corpus that it was trained on; None if it no longer exists.
        outputs: the output folder, for the choice of the baseline.
    """
    data = read_run(run, result, corpus, outputs)
    path = run / REPORT_FILE
    with atomic_writer(path) as out:
        out.write(report_page(data, _attention_maps(data, model)))
    return path


def report_page(data: RunData, attention: list[AttentionMap]) -> str:
    """Render the report."""
    scores = data.result.get("test_sets", {})
    context = {
        "data": data,
        "score_rows": {name: _score_rows(table) for name, table in scores.items()},
        "signatures": [
            (name, METRIC_NAMES[key], table[key]["signature"])
            for name, table in scores.items()
            for key in METRIC_NAMES
            if key in table
        ],
        "describe_leakage": describe_leakage,
        "charts": _curves(data),
        "test_sets": [describe_test_set(one, data.baseline) for one in data.test_sets],
        "attention": attention,
        "config": _rows(data.training.config),
        "environment": _rows(data.training.environment),
        "config_differences": _differences(data, "config"),
        "environment_differences": _differences(data, "environment"),
    }
    return render(_TEMPLATE, context)


def _attention_maps(data: RunData, model: TrainedModel) -> list[AttentionMap]:
    if not data.test_sets:
        return []
    sources, translations = data.test_sets[0].sources, data.test_sets[0].translations
    indices = short_sentences(model, sources, translations, _NUM_ATTENTION_MAPS)
    return [attention_map(model, sources[i], translations[i]) for i in indices]


def _score_rows(table: Mapping[str, Any]) -> list[list[str | None]]:
    """Return metric, score and interval, and with a baseline its score, difference, p, verdict."""
    rows: list[list[str | None]] = []
    for key in (key for key in METRIC_NAMES if key in table):
        digits = 4 if key == "comet" else 2
        interval = table[key].get("ci95")
        row: list[str | None] = [column_title(key), f"{table[key]['score']:.{digits}f}"]
        row.append(None if interval is None else f"± {interval:.2f}")
        if found := table.get("baseline", {}).get(key):
            p = max(found["p_bootstrap"], found["p_randomisation"])
            difference = f"{found['difference']:+.2f}".replace("-", "−")
            row += [f"{found['baseline']:.2f}", difference, format_p(p), found["verdict"]]
        elif "baseline" in table:
            row += [None, None, None, ""]
        rows.append(row)
    return rows


def _curves(data: RunData) -> list[Chart]:
    charts = []
    for title, unit, keys, may_be_log in _CURVES:
        curves = []
        for key in keys:
            prefix = key.partition("/")[0]
            name, colour = _NAMES[prefix]
            curves.append(Series(name, colour, *data.training.series(key)))
            if data.baseline is not None and prefix == "valid":
                name = f"{name} of {data.baseline.name}"
                curves.append(Series(name, "baseline", *data.baseline.series(key)))
        chart = line_chart(title, unit, [curve for curve in curves if curve.x], may_be_log)
        charts += [chart] if chart else []
    return charts


def _rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key, _format_value(value)) for key, value in flattened(values).items()]


def _differences(data: RunData, attribute: str) -> list[tuple[str, str, str]]:
    """Return key, value of the run and value of the baseline where they differ."""
    if data.baseline is None:
        return []
    values = differing_values(getattr(data.training, attribute), getattr(data.baseline, attribute))
    return [
        (key, _format_value(ours), _format_value(theirs))
        for key, (ours, theirs) in values.items()
        if not key.startswith(_LOCATION_KEYS)
    ]


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
