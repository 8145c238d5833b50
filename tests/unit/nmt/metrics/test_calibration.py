import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.metrics.calibration import calibration_error, isotonic, rank_correlation, reliability


@given(st.lists(st.tuples(st.floats(-9, 0), st.floats(0, 1)), min_size=1, max_size=50))
def test_isotonic_regression_is_monotonic_and_keeps_the_mean(
    pairs: list[tuple[float, float]],
) -> None:
    scores, values = zip(*pairs, strict=True)
    fitted = isotonic(scores, values)
    assert fitted.values == sorted(fitted.values)
    assert fitted.scores == sorted(fitted.scores)
    found = fitted(sorted(scores))
    assert all(a <= b + 1e-9 for a, b in pairwise(found))  # interpolation rounds
    assert min(values) - 1e-9 <= min(found) <= max(found) <= max(values) + 1e-9


def test_isotonic_regression_pools_violators() -> None:
    fitted = isotonic([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0])
    assert (fitted.scores, fitted.values) == ([1.0, 2.5, 4.0], [0.0, 0.5, 1.0])


def test_many_steps_become_few_and_stay_calibrated() -> None:
    draw = random.Random(1)
    scores = [draw.random() for _ in range(20_000)]
    outcomes = [float(draw.random() < score**2) for score in scores]
    fitted = isotonic(scores, outcomes)
    assert len(fitted.scores) <= 64
    assert calibration_error(reliability(fitted(scores), outcomes)) < 0.01
    assert calibration_error(reliability(scores, outcomes)) > 0.1


def test_calibration_error() -> None:
    table = reliability([0.9, 0.9, 0.1, 1.0], [1.0, 0.0, 0.0, 1.0])
    assert table == [(0.1, 0.0, 1), (pytest.approx(2.8 / 3), pytest.approx(2 / 3), 3)]
    assert calibration_error(table) == pytest.approx(0.225)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 2.0, 3.0], [10.0, 20.0, 21.0], 1.0),
        ([3.0, 2.0, 1.0], [10.0, 20.0, 21.0], -1.0),
        ([1.0, 2.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0], 9 / 90**0.5),  # ranks 1, 2.5, 2.5, 4
        ([1.0, 1.0], [1.0, 2.0], 0.0),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], expected: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(expected)
