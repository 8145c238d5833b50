"""The page of a sweep: ranking, curves, effects of the swept keys, and translations by each run."""

import math
import textwrap
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from nmt.base.layout import REPORT_FILE
from nmt.evaluation.charts import Chart, Series, line_chart
from nmt.evaluation.sentences import compare_words
from nmt.evaluation.spread import Spread
from nmt.evaluation.sweep import Group, Sweep, count_statuses, format_value
from nmt.metrics.scores import column_title, format_score, sentence_chrf
from nmt.metrics.seeds_significance import NUM_RESAMPLES
from nmt.metrics.significance import format_difference, format_p
from nmt.pages.html_page import COLOURS, draw_svg, relative_link, render
from nmt.run_folder import Run, series

_TEMPLATE = Path(__file__).with_name("templates") / "sweep.html.jinja"
_NUM_SENTENCES = 10
_CHART_SIZE = (5.6, 3.1)
_NUM_COLOURS = 8
_NUM_FIFTHS = 5
_MAX_LABELS = 6


def sweep_page(sweep: Sweep) -> str:
    """Render the page."""
    complete = [run for run in sweep.runs if run.final and run.settings]
    colours = group_colours(sweep.groups)
    groups = list(zip(range(1, len(colours) + 1), sweep.groups, colours, strict=True))
    context = {
        "sweep": sweep,
        "counts": count_statuses(sweep.runs),
        "groups": groups,
        "key_names": key_names(sweep.keys),
        "format_value": format_value,
        "group_row": group_row,
        "score_rows": score_rows,
        "seconds": format_seconds,
        "report_of": lambda folder: relative_link(sweep.folder, folder / REPORT_FILE),
        "corpora": sorted({run.known_corpus.folder for run in sweep.runs if run.known_corpus}),
        "curves": curve_charts(sweep),
        "effects": [effect_chart(key, complete) for key in sweep.keys] if complete else [],
        "parallel": parallel_chart(sweep.keys, complete) if complete and sweep.keys else "",
        "sentences": _sentences(sweep, groups),
        "num_resamples": NUM_RESAMPLES,
    }
    return render(_TEMPLATE, context)


def group_row(group: Group) -> dict[str, str]:
    """Format the figures of a group by column, for the page and the terminal; – if unknown."""
    num, difference = len(group.complete), group.difference
    flops = [run.flops for run in group.complete if run.flops]
    parameters = next(filter(None, (run.parameters for run in group.runs)), None)
    seconds = [run.seconds for run in group.complete if run.seconds is not None]
    return {
        "seeds": str(num) if num == len(group.runs) else f"{num} of {len(group.runs)}",
        "valid BLEU": _format(group.spread("bleu"), "bleu"),
        "vs best": format_difference(difference.difference) if difference else "–",
        "p": format_p(difference.p) if difference else "–",
        "valid loss": _format(group.spread("loss"), "loss"),
        "test BLEU": _format(group.spread("test_bleu"), "bleu"),
        "parameters": f"{parameters:,}" if parameters else "–",
        "FLOPs": f"{np.mean(flops):.3g}" if flops else "–",
        "time": format_seconds(float(np.mean(seconds))) if seconds else "–",
    }


def score_rows(group: Group) -> list[tuple[str, str, str, str]]:
    """Return test set, metric, mean ± deviation and the value of each seed for all scores."""
    return [
        (
            *(split, column_title(metric), spread.format(metric)),
            ", ".join(format_score(metric, value) for value in spread.values),
        )
        for (split, metric), spread in group.all_scores().items()
    ]


def format_seconds(seconds: float | None) -> str:
    """Format a duration as `1:02:03`; None is a dash."""
    return "–" if seconds is None else str(timedelta(seconds=round(seconds)))


def choose_sentences(sources: Sequence[str], number: int = _NUM_SENTENCES) -> list[int]:
    """Return indices of evenly spaced sentences, without the shortest and the longest quarter."""
    lengths = [len(source) for source in sources]
    low, high = np.quantile(lengths, (0.25, 0.75)) if lengths else (0, 0)
    medium = [index for index, length in enumerate(lengths) if low <= length <= high]
    return [medium[i] for i in sorted({len(medium) * i // number for i in range(number)}) if medium]


def _sentences(sweep: Sweep, groups: Sequence[tuple[int, Group, str]]) -> list[dict[str, Any]]:
    """Return the chosen sentences, each with its translations.

    `best` has the translations by the best run of each of the first eight groups, `others` those by
    all other runs. A translation consists of a label, the group, the group's colour, chrF2++ and
    parts (see `compare_words`).
    """
    sources, references = sweep.texts
    indices = choose_sentences(sources)
    chosen = [references[index] for index in indices]
    best: list[Any] = []
    others: list[Any] = []
    for number, group, colour in groups:
        runs = [run for run in group.runs if len(run.translations) == len(sources) > 0]
        for run in runs:
            texts = [run.translations[index] for index in indices]
            is_best = run is runs[0]
            label = number if is_best else f"{number}, seed {run.seed}"
            system = ((label, group, colour), texts, sentence_chrf(texts, chosen))
            (best if is_best else others).append(system)
    num_best = min(_NUM_COLOURS, len(best))
    sentences = []
    for i, index in enumerate(indices if best else ()):
        first = best[0][1][i]
        translations = [
            (*labels, chrf[i], compare_words(texts[i], first))
            for labels, texts, chrf in best + others
        ]
        sentences.append(
            {
                "line": index + 1,
                "source": sources[index],
                "reference": references[index],
                "best": translations[:num_best],
                "others": translations[num_best:],
            }
        )
    return sentences


def _format(spread: Spread | None, metric: str) -> str:
    return spread.format(metric) if spread else "–"


def group_colours(groups: Sequence[Group]) -> list[str]:
    """Return a colour for each group: different ones for the first eight, grey for the others."""
    return [f"group{i + 1}" if i < _NUM_COLOURS else "other" for i in range(len(groups))]


def key_names(keys: Sequence[str]) -> list[str]:
    """Return readable names of keys: `peak learning rate` for `schedule.peak_learning_rate`."""
    return [key.rpartition(".")[2].replace("_", " ") for key in keys]


def curve_charts(sweep: Sweep) -> list[Chart]:
    """Draw validation loss and BLEU of all runs, those of the best group on top."""
    charts = []
    for metric, title, unit in (
        ("loss", "Validation loss", "nats per target token"),
        ("bleu", "Validation BLEU", "BLEU"),
    ):
        curves = [
            Series(run.name, colour, *series(run.records, f"valid/{metric}"))
            for group, colour in zip(sweep.groups, group_colours(sweep.groups), strict=True)
            for run in group.runs
        ]
        curves = [curve for curve in reversed(curves) if curve.x]
        charts.append(line_chart(title, unit, curves, size=_CHART_SIZE))
    return [chart for chart in charts if chart]


def effect_chart(key: str, runs: Sequence[Run]) -> Markup:
    """Draw validation BLEU of complete runs over the values of a key.

    If there are at most six values, each also has its mean ± deviation. Runs with the same value
    differ in the seed and in the other swept keys.
    """
    positions, ticks = axis_of([run.settings[key] for run in runs])
    scores: dict[float, list[float]] = {x: [] for x in sorted(positions)}
    for x, run in zip(positions, runs, strict=True):
        scores[x].append(run.score("bleu") or 0.0)
    spreads = {x: Spread.of(values) for x, values in scores.items()}
    # Means are drawn beside the runs, so that neither hides the other.
    means_at = np.array(list(spreads)) + 0.02 * (max(positions) - min(positions))
    means = [spread.mean for spread in spreads.values()]
    deviations = [spread.deviation or math.nan for spread in spreads.values()]

    def draw(axes: Any) -> None:
        for x, spread in spreads.items():
            style = {"color": COLOURS["source"], "alpha": 0.5, "markeredgewidth": 0}
            axes.plot([x] * len(spread.values), spread.values, "o", markersize=6, **style)
        # In a search, values seldom repeat, so means would add little.
        if len(spreads) <= _MAX_LABELS:
            style = {"color": COLOURS["ink"], "linewidth": 1, "markersize": 4, "capsize": 3}
            axes.errorbar(means_at, means, deviations, fmt="D", **style)
            axes.plot(means_at, means, color=COLOURS["source"], linewidth=1, zorder=1)
        labels = [one if len(one) <= 24 else f"{one[:23]}…" for one in ticks.values()]
        turned = {"rotation": 25, "ha": "right"} if sum(map(len, labels)) > 45 else {}
        axes.set_xticks(list(ticks), labels, **turned)
        axes.margins(x=0.08)
        axes.set_xlabel(key)
        axes.set_title("BLEU", loc="left", fontsize=10)

    names = dict(zip(positions, (format_value(run.settings[key]) for run in runs), strict=True))
    found = [f"{names[x]}: {spread.format('bleu')}" for x, spread in spreads.items()]
    return draw_svg(draw, f"Validation BLEU by {key}. {'; '.join(found)}", _CHART_SIZE)


def parallel_chart(keys: Sequence[str], runs: Sequence[Run]) -> Markup:
    """Draw parallel coordinates: axes for the swept keys, loss and BLEU; a line for each run.

    There is at least one run. All are complete, the best first. The index gives the colour.
    """
    columns = {key: axis_of([run.settings[key] for run in runs]) for key in keys}
    columns["valid loss"] = _score_axis([run.score("loss") or 0.0 for run in runs])
    columns["valid BLEU"] = _score_axis([run.score("bleu") or 0.0 for run in runs])

    def draw(axes: Any) -> None:
        heights = []
        for x, (name, (positions, ticks)) in enumerate(columns.items()):
            # Every column is drawn from 0 to 1. A low loss is good, so it is at the top.
            ends = [min(positions), max(positions)]
            scaled = [1.0, 0.0] if name == "valid loss" and ends[0] < ends[1] else [0.0, 1.0]
            heights.append(np.interp(positions, ends, scaled))
            axes.axvline(x, color=COLOURS["baseline"], linewidth=0.8, zorder=3)
            for tick, label in ticks.items():
                y = np.interp(tick, ends, scaled)
                box = {"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 1}
                axes.text(x + 0.03, y, label, va="center", fontsize=9, zorder=4, bbox=box)
        for index in reversed(range(len(runs))):
            colour = COLOURS[f"fifth{_NUM_FIFTHS - index * _NUM_FIFTHS // len(runs)}"]
            axes.plot([column[index] for column in heights], color=colour, linewidth=1.6)
        names = [textwrap.fill(name, 16) for name in key_names(list(columns))]
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks([])
        axes.set_xlim(-0.15, len(names) - 0.6)
        axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
        axes.spines["bottom"].set_visible(False)

    label = f"A line for each of {len(runs)} runs across {', '.join(columns)}"
    return draw_svg(draw, label, (11, 3.6))


def _score_axis(scores: list[float]) -> tuple[list[float], dict[float, str]]:
    ticks = np.linspace(min(scores), max(scores), 4)
    return scores, {float(tick): f"{tick:.2f}" for tick in ticks}


def axis_of(values: Sequence[Any]) -> tuple[list[float], dict[float, str]]:
    """Return the position of each value on an axis, and the labels of the axis by position.

    Numbers are placed by their value, or by its logarithm if they are positive and vary by more
    than a factor of five. If any value is not a number, all are categories.
    """
    if not all(type(value) in (int, float) for value in values):
        names = sorted(set(map(format_value, values)))
        return [names.index(format_value(value)) for value in values], dict(enumerate(names))
    low, high = min(values), max(values)
    is_log = 0 < 5 * low < high
    labelled = sorted(set(values))
    if len(labelled) > _MAX_LABELS and is_log:
        labelled = _log_ticks(low, high)
    elif len(labelled) > _MAX_LABELS:
        spaced = np.linspace(low, high, 4)
        for digits in (2, 3, 4):  # the fewest that keep labels apart; `format_value` shows four
            labelled = [float(f"{one:.{digits}g}") for one in spaced]
            if len(set(labelled)) == len(labelled):
                break
    scale = math.log10 if is_log else float
    return [scale(value) for value in values], {scale(one): format_value(one) for one in labelled}


def _log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten from low to high; only the powers if too many."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**exponent for exponent in exponents for digit in (1, 2, 5)]
    inside = [tick for tick in ticks if low <= tick <= high]
    powers = [10.0**exponent for exponent in exponents]
    return inside if len(inside) <= 2 * _MAX_LABELS else [one for one in powers if one in inside]
