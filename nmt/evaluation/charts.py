"""Line charts and bar charts of the reports on runs and sweeps."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from nmt.base.job_output import short_name
from nmt.pages.html_page import COLOURS, draw_svg

_SIZE = (4.4, 2.5)  # inches


@dataclass(frozen=True)
class Series:
    """A curve or a set of bars.

    Attributes:
        name: name in the legend.
        colour: a key of `COLOURS`; a curve in `baseline` is dashed and drawn behind the others.
        x: positions of the points; empty for bars.
        y: values; NaN makes a gap in a curve.
        errors: half the width of the confidence interval of each bar; empty for curves.
    """

    name: str
    colour: str
    x: Sequence[float]
    y: Sequence[float]
    errors: Sequence[float] = ()


@dataclass(frozen=True)
class Chart:
    """A drawn chart; its legend is the name and colour of each series."""

    title: str
    legend: list[tuple[str, str]]
    svg: Markup


def line_chart(
    title: str,
    y_unit: str,
    series: Sequence[Series],
    may_be_log: bool = False,
    size: tuple[float, float] = _SIZE,
) -> Chart | None:
    """Draw curves over updates; None if there is no finite value.

    With `may_be_log`, only positive values count, and the y axis is logarithmic if they vary by
    more than a factor of ten.
    """
    values = np.array([value for one in series for value in one.y])
    values = values[np.isfinite(values) & ((values > 0) | (not may_be_log))]
    if not values.size:
        return None
    low, high = values.min(), values.max()

    def draw(axes: Any) -> None:
        for one in series:
            x, y = np.array(one.x), np.array(one.y)
            style = {"color": COLOURS[one.colour], "zorder": 2 - (one.colour == "baseline") / 2}
            dashes = "--" if one.colour == "baseline" else "-"
            axes.plot(x, y, dashes, linewidth=1.3, **style)
            # A point between two gaps is on no line, so a dot is drawn.
            gaps = np.concatenate([[True], ~np.isfinite(y), [True]])
            single = gaps[:-2] & gaps[2:]
            axes.plot(x[single], y[single], ".", markersize=4, **style)
        if may_be_log and high > 10 * low:
            axes.set_yscale("log", nonpositive="mask")
            if high < 1000 * low:
                axes.yaxis.get_major_locator().set_params(subs=(1, 2, 5))
        elif 0 < low < high / 2:
            axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)

    return _chart(title, series, draw, "update", y_unit, size)


def bar_chart(title: str, x_unit: str, labels: Sequence[str], series: Sequence[Series]) -> Chart:
    """Draw BLEU as bars with error bars: for each label, a bar of each series."""

    def draw(axes: Any) -> None:
        width = 0.8 / len(series)
        for index, one in enumerate(series):
            x = np.arange(len(labels)) + (index - (len(series) - 1) / 2) * width
            bars = {"width": width * 0.92, "color": COLOURS[one.colour]}
            axes.bar(x, one.y, **bars, yerr=one.errors, ecolor=COLOURS["ink"])
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylim(bottom=0)

    return _chart(title, series, draw, x_unit, "BLEU")


def _chart(
    title: str,
    series: Sequence[Series],
    draw: Callable[[Any], None],
    x_unit: str,
    y_unit: str,
    size: tuple[float, float] = _SIZE,
) -> Chart:
    def draw_with_units(axes: Any) -> None:
        draw(axes)
        axes.set_xlabel(x_unit)
        axes.set_title(y_unit, loc="left", fontsize=10)
        axes.yaxis.set_major_formatter("{x:,.6g}")
        axes.yaxis.set_minor_formatter("")

    description = f"{title}. {'; '.join(map(_describe, series))}"
    svg = draw_svg(draw_with_units, description, size)
    return Chart(title, [(short_name(one.name), one.colour) for one in series], svg)


def _describe(series: Series) -> str:
    """Describe a series for screen readers."""
    y = [value for value in series.y if math.isfinite(value)]
    if not y:
        return f"{series.name}: no values"
    return (
        f"{series.name}: from {y[0]:.4g} to {y[-1]:.4g}, lowest {min(y):.4g}, highest {max(y):.4g}"
    )
