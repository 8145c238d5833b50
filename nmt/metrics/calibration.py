"""Calibration: from scores of a model to probabilities that agree with what was observed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_MOST_STEPS = 64


@dataclass(frozen=True)
class Calibration:
    """A monotonic function, linear between its points.

    Attributes:
        scores: ascending.
        values: the value at each score, not descending.
    """

    scores: list[float]
    values: list[float]

    def __call__(self, scores: Sequence[float]) -> list[float]:
        """Return the value of each score; outside of the points it is that of the nearest."""
        return [float(value) for value in np.interp(scores, self.scores, self.values)]


def isotonic(scores: Sequence[float], values: Sequence[float]) -> Calibration:
    """Fit the monotonic function with the least squared error, by pooling adjacent violators.

    Neighbouring steps are joined until at most 64 are left (Zadrozny and Elkan 2002).
    """
    order = np.argsort(np.asarray(scores), kind="stable")
    # Weight, mean score and mean value of each step.
    steps: list[tuple[float, float, float]] = []
    for index in order:
        step = (1.0, float(scores[index]), float(values[index]))
        while steps and steps[-1][2] >= step[2]:
            step = _pooled(steps.pop(), step)
        steps.append(step)
    while len(steps) > _MOST_STEPS:
        pairs = range(len(steps) - 1)
        first = min(pairs, key=lambda i: steps[i][0] + steps[i + 1][0])
        steps[first : first + 2] = [_pooled(steps[first], steps[first + 1])]
    # Pooled means may descend by rounding.
    ascending, rising = (
        np.maximum.accumulate([step[i] for step in steps]).tolist() for i in (1, 2)
    )
    return Calibration(ascending, rising)


def _pooled(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    weight = one[0] + other[0]
    score, value = ((one[i] * one[0] + other[i] * other[0]) / weight for i in (1, 2))
    return weight, score, value


def reliability(
    probabilities: Sequence[float], outcomes: Sequence[float], bins: int = 10
) -> list[tuple[float, float, int]]:
    """Return mean probability, share of right outcomes, and size of the bins that have any.

    The bins have equal width (a reliability diagram, Guo et al. 2017).
    """
    probability, outcome = np.asarray(probabilities), np.asarray(outcomes)
    number = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        (float(probability[own].mean()), float(outcome[own].mean()), int(own.sum()))
        for own in (number == i for i in range(bins))
        if own.any()
    ]


def calibration_error(table: Sequence[tuple[float, float, int]]) -> float:
    """Return the expected calibration error (Guo et al. 2017, equation 3), 0 to 1.

    It is the mean distance between mean probability and share of right outcomes of the bins of
    `reliability`, weighted by their sizes.
    """
    total = sum(size for _, _, size in table)
    return sum(abs(mean - share) * size for mean, share, size in table) / max(1, total)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values have the mean of their ranks.

    It is 0 if all values of a side are equal.
    """
    ranks = []
    for column in (first, second):
        _, index, counts = np.unique(np.asarray(column), return_inverse=True, return_counts=True)
        # Twice the mean rank; the factor does not change the correlation.
        ranks.append((2 * np.cumsum(counts) - counts)[index])
    if any(len(set(each.tolist())) < 2 for each in ranks):
        return 0.0
    return float(np.corrcoef(ranks)[0, 1])
