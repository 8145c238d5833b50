import math
import re

import pytest

from nmt.evaluation.charts import Chart, Series, bar_chart, line_chart
from tests.html_check import check_page

NAN, INFINITY = math.nan, math.inf


def curve(*values: float) -> Series:
    return Series("ours", "source", range(1, len(values) + 1), values)


def text_of(chart: Chart | None) -> str:
    assert chart is not None
    return check_page(f"<!doctype html><html><body>{chart.svg}</body></html>")


def test_curves_have_units_and_a_description() -> None:
    chart = line_chart("L<oss", "n&ts", [curve(9, 7, 1), curve(8)])
    text = text_of(chart)
    assert chart is not None
    assert (chart.title, chart.legend[0]) == ("L<oss", ("ours", "source"))
    assert "n&ts" in text
    assert "update" in text
    assert 'aria-label="L&lt;oss. ours: from 9 to 1, lowest 1, highest 9' in chart.svg


def test_values_that_are_not_finite_are_gaps() -> None:
    chart = line_chart("Loss", "nats", [curve(4, 3, NAN, 2, INFINITY, 1, 1)])
    assert "from 4 to 1, lowest 1, highest 4" in chart.svg
    assert chart.svg.count("stroke: var(--source)") >= 2  # lines and the single point
    assert "nan" not in text_of(chart)


def test_chart_without_a_finite_value_is_omitted() -> None:
    assert line_chart("Loss", "nats", [curve(NAN, NAN)]) is None
    assert line_chart("Loss", "nats", []) is None


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((5, 0, 100, 2), ["2", "5", "10", "20", "50", "100"]),
        ((12, 130), ["20", "50", "100"]),
        ((1, 20_000), ["1", "10", "100", "1,000", "10,000"]),
        ((5, 4, 3), ["4", "4.5", "5"]),
    ],
)
def test_axis_is_logarithmic_for_large_ratios(values: tuple[float, ...], ticks: list[str]) -> None:
    chart = line_chart("Norm", "norm", [curve(*values)], may_be_log=True)
    assert chart is not None
    assert re.findall(r">([\d.,]+)<", chart.svg)[-len(ticks) :] == ticks


def test_bars_have_intervals() -> None:
    rows = [
        Series("ours", "source", (), [10.0, 8.0], [2.0, 1.0]),
        Series("old", "baseline", (), [5, 7], [1, 1]),
    ]
    chart = bar_chart("BLEU by length", "words", ["1–3", "<4"], rows)
    assert chart.svg.count("fill: var(--source)") == 2
    assert chart.svg.count("stroke: var(--ink)") == 4
    assert "<4" in text_of(chart)
