"""The page of a sweep: ranking, curves, effects of the swept keys, and translations by each run."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from nmt.evaluation.sentences import compare_words
from nmt.evaluation.spread import Spread
from nmt.evaluation.sweep import Group, Sweep, count_statuses, format_value
from nmt.evaluation.sweep_charts import (
    NUM_COLOURS,
    curve_charts,
    effect_chart,
    group_colours,
    key_names,
    parallel_chart,
)
from nmt.metrics.scores import sentence_chrf
from nmt.metrics.seeds_significance import NUM_RESAMPLES
from nmt.metrics.significance import format_difference, format_p
from nmt.pages.html_page import render

_TEMPLATE = Path(__file__).with_name("templates") / "sweep.html.jinja"
_NUM_SENTENCES = 10


def sweep_page(sweep: Sweep) -> str:
    """Render the page."""
    complete = [run for run in sweep.runs if run.result and run.config]
    colours = group_colours(sweep.groups)
    groups = list(zip(range(1, len(colours) + 1), sweep.groups, colours, strict=True))
    context = {
        "sweep": sweep,
        "counts": count_statuses(sweep.runs),
        "groups": groups,
        "key_names": key_names(sweep.keys),
        "format_value": format_value,
        "group_row": group_row,
        "seconds": format_seconds,
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
    parameters = next((run.parameters for run in group.runs if run.parameters), None)
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


def format_seconds(seconds: float | None) -> str:
    """Format a duration as `1:02:03`; None is a dash."""
    return "–" if seconds is None else str(timedelta(seconds=round(seconds)))


def choose_sentences(sources: Sequence[str], number: int = _NUM_SENTENCES) -> list[int]:
    """Choose evenly spaced sentences, without the quarters with the fewest and most characters."""
    lengths = [len(source) for source in sources]
    low, high = np.quantile(lengths, (0.25, 0.75)) if lengths else (0, 0)
    medium = [index for index, length in enumerate(lengths) if low <= length <= high]
    return [medium[i] for i in sorted({len(medium) * i // number for i in range(number)}) if medium]


def _sentences(sweep: Sweep, groups: Sequence[tuple[int, Group, str]]) -> list[dict[str, Any]]:
    """Return the chosen sentences, each with its translations.

    `best` are those by the best run of each of the first eight groups, `others` those by all other
    runs. Each has a label, the group, its colour, chrF2++ and parts (see `compare_words`).
    """
    sources, references = sweep.texts
    indices = choose_sentences(sources)
    chosen = [references[index] for index in indices]
    systems: list[Any] = []
    for number, group, colour in groups:
        runs = [run for run in group.runs if len(run.hypotheses) == len(sources) > 0]
        for rank, run in enumerate(runs):
            texts = [run.hypotheses[index] for index in indices]
            label = f"{number}, seed {run.seed}" if rank else number
            systems.append((rank, (label, group, colour), texts, sentence_chrf(texts, chosen)))
    systems.sort(key=lambda system: system[0] > 0)  # the best run of each group first
    num_best = min(NUM_COLOURS, sum(rank == 0 for rank, *_ in systems))
    sentences = []
    for i, index in enumerate(indices if systems else ()):
        first = systems[0][2][i]
        translations = [
            (*labels, chrf[i], compare_words(texts[i], first)) for _, labels, texts, chrf in systems
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
