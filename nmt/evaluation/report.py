"""Report of a run as a self-contained HTML page.

The page shows the scores, the training curves, single translations, attention maps, the
configuration and the environment. It is made from the files of the run, of its baseline and of its
corpus, so it can be made again at any time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import read_record, write_texts
from nmt.config import Config, differing_values, flattened, load_config, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.attention_page import ShownSentence, attention_maps
from nmt.evaluation.charts import Chart, Series, line_chart
from nmt.evaluation.evaluate import StoredTexts, read_texts, stored_hypotheses
from nmt.evaluation.records import read_metrics, series
from nmt.evaluation.sentences import describe_test_set
from nmt.evaluation.systems import NO_BASELINE, find_baseline, system_name
from nmt.evaluation.tables import describe_leakage
from nmt.metrics.scores import METRIC_NAMES, column_title, format_score
from nmt.metrics.significance import format_difference, format_p
from nmt.pages.html_page import render
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
# Name and colour of a curve, by the beginning of its key.
_NAMES = {"train": ("training", "source"), "valid": ("validation", "target")}


@dataclass(frozen=True)
class Training:
    """Configuration of a run as plain values, its environment and records of `metrics.jsonl`."""

    name: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class RunData:
    """All data of a report.

    Attributes:
        result: contents of `result.json`.
        test_sets: the test sets, each with the translations of the baseline or None.
        manifest: the manifest of the corpus; empty if the corpus no longer exists.
        why: how the baseline was chosen, or why there is none.
    """

    training: Training
    result: Mapping[str, Any]
    test_sets: Sequence[tuple[StoredTexts, list[str] | None]]
    manifest: Mapping[str, Any]
    baseline: Training | None
    why: str


def write_report(
    run: Path,
    result: Mapping[str, Any],
    model: TrainedModel,
    corpus: PreparedCorpus | None,
) -> Path:
    """Write the report of a run to its folder, and return its path.

    `result` has the contents of `result.json`, which may not be written yet. `corpus` is None if it
    no longer exists.
    """
    data = _read_run(run, result, corpus)
    shown: list[ShownSentence] = []
    for texts, _ in data.test_sets[:1]:
        indices = short_sentences(model, texts.sources, texts.hypotheses, _NUM_ATTENTION_MAPS)
        pairs = [(texts.sources[i], texts.hypotheses[i]) for i in indices]
        shown = [(*pair, sentence_attention(model, *pair)) for pair in pairs]
    path = run / layout.REPORT_FILE
    write_texts({path: report_page(data, shown)})
    return path


def report_page(data: RunData, shown: Sequence[ShownSentence]) -> str:
    """Render the report; `shown` are the sentences with attention maps."""
    baseline_name = data.baseline.name if data.baseline else ""
    context = {
        "data": data,
        "metrics": METRIC_NAMES,
        "column_title": column_title,
        "format_score": format_score,
        "format_difference": format_difference,
        "format_p": format_p,
        "describe_leakage": describe_leakage,
        "charts": _curves(data),
        "test_sets": [describe_test_set(*one, baseline_name) for one in data.test_sets],
        "attention": attention_maps(shown) if shown else None,
        "config": _rows(data.training.config),
        "environment": _rows(data.training.environment),
    }
    if data.baseline is not None:
        run, baseline = data.training, data.baseline
        context["config_differences"] = _differences(run.config, baseline.config)
        context["environment_differences"] = _differences(run.environment, baseline.environment)
    return render(_TEMPLATE, context)


def _read_run(run: Path, result: Mapping[str, Any], corpus: PreparedCorpus | None) -> RunData:
    found = find_baseline(run, corpus) if corpus else None
    system, baseline = None, None
    why = NO_BASELINE if corpus else "the corpus of the run no longer exists"
    if found and found.system.run:
        try:
            baseline = _read_training(found.system.run, found.system.name)
            system, why = found.system, found.why
        except UserError as error:
            # A damaged baseline does not prevent the report of this run.
            why = f"{found.system.name} cannot be read: {one_line(error)}"
    stored = [read_texts(run, name) for name in result["test_sets"]]
    return RunData(
        _read_training(run, system_name(run.absolute())),
        result,
        [(texts, stored_hypotheses(system, texts) if system else None) for texts in stored],
        corpus.manifest if corpus else {},
        baseline,
        why,
    )


def _read_training(run: Path, name: str) -> Training:
    config = to_plain(load_config(Config, run / layout.CONFIG_FILE))
    environment = read_record(run / layout.ENVIRONMENT_FILE, dict[str, Any])
    return Training(name, config, environment, read_metrics(run / layout.METRICS_FILE))


def _curves(data: RunData) -> list[Chart]:
    charts = []
    for title, unit, keys, may_be_log in _CURVES:
        curves = []
        for key in keys:
            prefix = key.partition("/")[0]
            name, colour = _NAMES[prefix]
            curves.append(Series(name, colour, *series(data.training.records, key)))
            if data.baseline is not None and prefix == "valid":
                name = f"{name} of {data.baseline.name}"
                curves.append(Series(name, "baseline", *series(data.baseline.records, key)))
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
