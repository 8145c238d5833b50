"""Curves and bars as inline SVG: pure functions from numbers to text.

Shapes carry classes and no colours, so the page's style decides, in the light and in the dark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.html_page import text

STYLE = """
.charts { display: grid; gap: 1.5rem 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
figure.chart { margin: 0; max-width: 27rem; display: flex; flex-direction: column;
  justify-content: space-between; }
figcaption { font-size: .9rem; } figcaption b { color: var(--ink); display: block; }
svg text { font-size: 13px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .error { stroke: var(--ink); stroke-width: 1; }
svg polyline { stroke-width: 1.8; stroke-linejoin: round; }
svg polyline.source { fill: none; stroke: var(--bar); }
svg polyline.target { fill: none; stroke: var(--bar2); }
svg polyline.before { fill: none; stroke: var(--faint); stroke-dasharray: 5 3; }
.before { fill: var(--faint); }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
.named { display: inline-block; margin-right: .9em; overflow-wrap: anywhere; }
.key.source { background: var(--bar); } .key.target { background: var(--bar2); }
.key.before { background: var(--faint); }
"""

_WIDTH, _HEIGHT = 420, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 22, 40
_MOST_POINTS = 600


@dataclass(frozen=True)
class Series:
    """One curve.

    Attributes:
        name: for the legend.
        kind: `source`, `target` or `before`: the class that gives its colour.
        points: (x, y), by rising x; a y that is no finite number is a gap.
    """

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bars:
    """One row of bars.

    Attributes:
        name: for the legend.
        kind: `source`, `target` or `before`: the class that gives its colour.
        values: one a label; None is no bar.
        errors: half of each value's interval, or None.
    """

    name: str
    kind: str
    values: Sequence[float | None]
    errors: Sequence[float | None]


@dataclass(frozen=True)
class Axis:
    """From values to pixels.

    Attributes:
        low: the value at `start`.
        high: the value at `end`.
        start: a pixel.
        end: a pixel.
        marks: values that get a tick.
        is_log: whether equal ratios take equal room.
    """

    low: float
    high: float
    start: float
    end: float
    marks: list[float]
    is_log: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round values that lie apart by 1, 2 or 5 times a power of ten; they enclose low and high."""
    if not high > low:
        low, high = (low - abs(low) / 2 or -0.5, high + abs(high) / 2 or 0.5)
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * f for f in (1, 2, 5, 10, 20) if power * f * most >= (high - low) * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten that enclose low and high; of many, the powers alone."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high) + 1e-9)
    marks = [f * 10.0**power for power in range(first, last + 1) for f in (1, 2, 5)]
    below = max((mark for mark in marks if mark <= low * 1.000001), default=marks[0])
    above = min(mark for mark in marks if mark >= high * 0.999999 and mark > below)
    inside = [mark for mark in marks if below <= mark <= above]
    if len(inside) <= 7:
        return inside
    every = -(-(last - first) // 6)
    return [10.0**power for power in range(first, last + every, every)]


def tick_label(value: float) -> str:
    """`25,000`, `0.5`, `3e-05`."""
    if abs(value) >= 10_000_000 or 0 < abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{round(value, 6):g}"


def segments(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The parts of a curve between its gaps."""
    parts: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if math.isfinite(y):
            parts[-1].append((x, y))
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part]


def thinned(
    points: Sequence[tuple[float, float]], most: int = _MOST_POINTS
) -> Sequence[tuple[float, float]]:
    """At most so many points, each the mean of its neighbours; where all are gaps it is a gap."""
    if len(points) <= most:
        return points
    size = -(-len(points) // most)
    means = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        known = [y for _, y in group if math.isfinite(y)]
        means.append((group[-1][0], sum(known) / len(known) if known else math.nan))
    return means


def line_chart(
    title: str, unit: str, series: Sequence[Series], x_unit: str, is_log: bool = False
) -> str:
    """Curves over one another, with axes, ticks and a legend; "" where there is no point at all.

    Args:
        title: what is shown.
        unit: of the y axis.
        series: the curves.
        x_unit: of the x axis.
        is_log: a logarithmic y axis where values differ by more than a factor of ten; those that
            are not above zero are gaps.
    """
    curves = [
        (one, [(x, y if not is_log or y > 0 else math.nan) for x, y in thinned(one.points)])
        for one in series
    ]
    values = [y for _, points in curves for _, y in points if math.isfinite(y)]
    if not values:
        return ""
    low, high = min(values), max(values)
    is_log = is_log and high > 10 * low
    # An axis starts from zero where that costs no more than half of it.
    marks = log_ticks(low, high) if is_log else ticks(0.0 if 0 < low < high / 2 else low, high)
    y_axis = Axis(marks[0], marks[-1], _HEIGHT - _BOTTOM, _TOP, marks, is_log)
    last = max(points[-1][0] for _, points in curves if points)
    x_marks = [mark for mark in ticks(0, max(last, 1)) if mark <= last]
    x_axis = Axis(0, max(last, 1), _LEFT, _WIDTH - _RIGHT, x_marks)
    shapes = [_axes(x_axis, y_axis, unit, x_unit)]
    for one, points in reversed(curves):  # the first lies on top
        for part in segments(points):
            places = [(x_axis.place(x), y_axis.place(y)) for x, y in part]
            if len(places) == 1:
                (x, y) = places[0]
                shapes.append(f'<circle class="{one.kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>')
            else:
                line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                shapes.append(f'<polyline class="{one.kind}" points="{line}"/>')
    told = "; ".join(_in_words(one.name, points) for one, points in curves)
    return _figure(title, [(one.name, one.kind) for one in series], "".join(shapes), told)


def _in_words(name: str, points: Sequence[tuple[float, float]]) -> str:
    known = [y for _, y in points if math.isfinite(y)]
    if not known:
        return f"{name}: nothing"
    return (
        f"{name}: from {known[0]:.4g} to {known[-1]:.4g}, lowest {min(known):.4g}, highest"
        f" {max(known):.4g}"
    )


def bar_chart(
    title: str, unit: str, labels: Sequence[str], rows: Sequence[Bars], below: str
) -> str:
    """Bars side by side, each with its interval.

    Args:
        title: what is shown.
        unit: of the y axis, which starts from 0.
        labels: one a group of bars.
        rows: one a colour.
        below: what the labels are.
    """
    tops = [
        value + (error or 0)
        for row in rows
        for value, error in zip(row.values, row.errors, strict=True)
        if value is not None
    ]
    marks = ticks(0, max([*tops, 1e-9]))
    y_axis = Axis(marks[0], marks[-1], _HEIGHT - _BOTTOM, _TOP, marks)
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    wide = min(40.0, room * 0.8 / max(1, len(rows)))
    shapes = [_axes(None, y_axis, unit, below)]
    told = []
    for number, label in enumerate(labels):
        middle = _LEFT + (number + 0.5) * room
        y = _HEIGHT - _BOTTOM + 15
        shapes.append(f'<text x="{middle:.1f}" y="{y}" text-anchor="middle">{text(label)}</text>')
        for index, row in enumerate(rows):
            value = row.values[number]
            if value is None:
                continue
            x = middle + (index - len(rows) / 2) * wide
            top, error = y_axis.place(value), row.errors[number]
            shapes.append(
                f'<rect class="{row.kind}" x="{x + 1:.1f}" y="{top:.1f}" width="{wide - 2:.1f}"'
                f' height="{y_axis.start - top:.1f}"><title>{value:.2f}</title></rect>'
            )
            if error:
                high, low = y_axis.place(value + error), y_axis.place(max(0.0, value - error))
                shapes.append(_line("error", x + wide / 2, high, x + wide / 2, low))
            told.append(f"{row.name}, {label}: {value:.1f}")
    legend = [(row.name, row.kind) for row in rows]
    return _figure(title, legend, "".join(shapes), "; ".join(told))


def _axes(x_axis: Axis | None, y_axis: Axis, unit: str, x_unit: str) -> str:
    right = _WIDTH - _RIGHT
    shapes = [f'<text x="2" y="12">{text(unit)}</text>']
    for mark in y_axis.marks:
        y = y_axis.place(mark)
        shapes.append(_line("grid", _LEFT, y, right, y))
        shapes.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick_label(mark)}</text>'
        )
    for mark in x_axis.marks if x_axis else ():
        x, y = x_axis.place(mark) if x_axis else 0, _HEIGHT - _BOTTOM
        shapes.append(_line("grid", x, y, x, y + 4))
        anchor = "end" if x > right - 20 else "middle"
        shapes.append(
            f'<text x="{x:.1f}" y="{y + 16}" text-anchor="{anchor}">{tick_label(mark)}</text>'
        )
    middle = (_LEFT + right) / 2
    shapes.append(
        f'<text x="{middle}" y="{_HEIGHT - 4}" text-anchor="middle">{text(x_unit)}</text>'
    )
    return "".join(shapes)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _figure(title: str, legend: Sequence[tuple[str, str]], shapes: str, told: str) -> str:
    keys = "".join(
        f'<span class="named"><span class="key {kind}"></span>{text(name)}</span>'
        for name, kind in legend
    )
    label = text(f"{title}. {told}")
    return (
        f'<figure class="chart"><figcaption><b>{text(title)}</b>{keys}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">'
        f"{shapes}</svg></figure>"
    )
