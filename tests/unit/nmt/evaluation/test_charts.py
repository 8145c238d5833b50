import math
import re

import pytest

from nmt.evaluation.charts import (
    Axis,
    Bars,
    Series,
    bar_chart,
    line_chart,
    log_ticks,
    segments,
    thinned,
    tick_label,
    ticks,
)
from tests.html_check import check_page

NAN, INFINITY = math.nan, math.inf


def whole(figure: str) -> str:
    return check_page(f"<!doctype html><html><body>{figure}</body></html>")


def curve(*values: float) -> Series:
    return Series("ours", "source", list(enumerate(values, start=1)))


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (3, 97), (-2, 5), (0.1237, 0.1239), (0, 0), (5, 5), (-3, -3), (0, 1e9)],
)
def test_ticks_are_few_and_round_and_enclose_what_there_is(low: float, high: float) -> None:
    marks = ticks(low, high)
    assert 3 <= len(marks) <= 8
    assert marks[0] <= low + 1e-9
    assert marks[-1] >= high - 1e-9
    step = marks[1] - marks[0]
    assert f"{step:.0e}"[0] in "125"


@pytest.mark.parametrize(("low", "high"), [(1.1, 4000), (2, 3.5), (1, 1), (1e-9, 1e9), (0.05, 60)])
def test_logarithmic_ticks(low: float, high: float) -> None:
    marks = log_ticks(low, high)
    assert 2 <= len(marks) <= 8
    assert marks[0] <= low * 1.0001
    assert marks[-1] >= high * 0.9999
    assert Axis(marks[0], marks[-1], 100, 0, marks, True).place(marks[-1]) == pytest.approx(0)


def test_labels_of_ticks() -> None:
    values = (25_000, 0.5, 0.30000000000000004, 3e-5, 0, 1e8, -2)
    shown = ["25,000", "0.5", "0.3", "3e-05", "0", "1e+08", "-2"]
    assert [tick_label(value) for value in values] == shown


def test_what_is_no_number_is_a_gap() -> None:
    points = list(enumerate([NAN, 1.0, 2.0, INFINITY, NAN, 3.0, -INFINITY]))
    assert segments(points) == [[(1, 1.0), (2, 2.0)], [(5, 3.0)]]
    assert segments([]) == []
    figure = line_chart("Loss", "nats", [curve(4, 3, NAN, 2, INFINITY, 1, 1)], "update")
    assert figure.count("<polyline") == 2
    assert figure.count("<circle") == 1  # a point by itself
    assert "nan" not in figure
    assert "inf" not in figure


def test_without_any_number_there_is_no_chart() -> None:
    assert line_chart("Loss", "nats", [curve(NAN, NAN)], "update") == ""
    assert line_chart("Loss", "nats", [], "update") == ""


def test_a_logarithmic_axis_has_no_place_for_zero() -> None:
    figure = line_chart("Norm", "norm", [curve(5, 0, 100, 2)], "update", is_log=True)
    assert figure.count("<polyline") == 1
    assert figure.count("<circle") == 1


def test_curves_stay_inside_and_have_titles_units_and_legends() -> None:
    figure = line_chart("L<oss", "n&ts", [curve(9, 7, 1), curve(8)], "update")
    told = whole(figure)
    for word in ("L<oss", "n&ts", "ours", "update"):
        assert word in told
    assert 'aria-label="L&lt;oss. ours: from 9 to 1, lowest 1, highest 9' in figure
    places = re.findall(r"([\d.]+),([\d.]+)", "".join(re.findall(r'points="([^"]+)"', figure)))
    assert places
    assert all(0 <= float(x) <= 420 and 0 <= float(y) <= 240 for x, y in places)


def test_long_curves_are_thinned_by_means() -> None:
    points = [(float(place), float(place % 2)) for place in range(1000)]
    assert thinned(points, 1000) == points
    found = thinned(points, 100)
    assert len(found) == 100
    assert {y for _, y in found} == {0.5}
    assert found[-1][0] == 999
    (gap, half) = thinned([(1, NAN), (2, NAN), (3, NAN), (4, 6.0)], 2)
    assert math.isnan(gap[1])
    assert half == (4, 6.0)


def test_bars_have_intervals_and_missing_ones_none() -> None:
    rows = [
        Bars("ours", "source", [10.0, None], [2.0, None]),
        Bars("b", "before", [5, 7], [None] * 2),
    ]
    figure = bar_chart("BLEU", "BLEU", ["1–3", "<4"], rows, "words")
    told = whole(figure)
    assert figure.count("<rect") == 3
    assert figure.count('class="error"') == 1
    assert "<4" in told
    assert (
        bar_chart("BLEU", "BLEU", [], [Bars("ours", "source", [], [])], "words").count("<rect") == 0
    )
