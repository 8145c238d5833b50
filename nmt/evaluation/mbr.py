"""Minimum Bayes risk: of several translations the one most like all of them.

With samples of the model for candidates, the mean utility of a candidate against all of them is an
estimate of its expected utility under the model (Eikema and Aziz 2020, section 6, equation 8).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from nmt.evaluation.scores import metrics

Counts = NDArray[np.int64]


class Utility(Enum):
    """How like a translation is to another: a metric of single sentences, by sacrebleu."""

    chrf = "chrf"
    bleu = "bleu"


def expected_utilities(candidates: Sequence[str], utility: Utility) -> list[float]:
    """The mean utility of each candidate, 0 to 100, against all of them, itself included.

    Equal candidates count as often as they are there. The n-grams of each are counted once: 32
    candidates take hundredths of a second.
    """
    count_of = Counter(candidates)
    texts = list(count_of)
    weights = np.array([count_of[text] for text in texts], dtype=np.float64) / len(candidates)
    utilities = _CHRF_OR_BLEU[utility](texts) @ weights  # (K,)
    by_text = dict(zip(texts, utilities.tolist(), strict=True))
    return [by_text[candidate] for candidate in candidates]


def _chrf(texts: list[str]) -> NDArray[np.float64]:
    """(K, K): chrF2++ of the row's text with the column's as its reference."""
    metric = metrics()["chrf"]
    ngrams = metric._extract_reference_info(texts)["ref_ngrams"]
    matches, totals = _overlaps(ngrams)
    scores = np.empty((len(texts), len(texts)))
    for row in range(len(texts)):
        for column in range(len(texts)):
            # An order that the reference has no n-gram of does not count, as in sacrebleu.
            hypothesis = np.where(totals[column] > 0, totals[row], 0)
            statistics = np.stack((hypothesis, totals[column], matches[row, column]), axis=1)
            scores[row, column] = metric._compute_f_score(statistics.ravel().tolist())
    return scores


def _bleu(texts: list[str]) -> NDArray[np.float64]:
    """(K, K): BLEU (13a, exponential smoothing, effective order), as of `_chrf`."""
    metric = BLEU(effective_order=True)
    tokenised = [metric._preprocess_segment(text) for text in texts]
    ngrams: list[list[Counter[Any]]] = []
    for line in tokenised:
        of_all = metric._extract_reference_info([line])["ref_ngrams"]
        orders: list[Counter[Any]] = [Counter() for _ in range(metric.max_ngram_order)]
        for ngram, count in of_all.items():
            orders[len(ngram) - 1][ngram] = count
        ngrams.append(orders)
    matches, totals = _overlaps(ngrams)
    scores = np.empty((len(texts), len(texts)))
    for row in range(len(texts)):
        for column in range(len(texts)):
            # The first order counts single tokens.
            lengths = [int(totals[row, 0]), int(totals[column, 0])]
            statistics = [*lengths, *matches[row, column].tolist(), *totals[row].tolist()]
            scores[row, column] = metric._compute_score_from_stats(statistics).score
    return scores


_CHRF_OR_BLEU: dict[Utility, Callable[[list[str]], NDArray[np.float64]]] = {
    Utility.chrf: _chrf,
    Utility.bleu: _bleu,
}


def _overlaps(ngrams: list[list[Counter[Any]]]) -> tuple[Counts, Counts]:
    """How many n-grams of each order texts share, and have.

    Args:
        ngrams: K texts: a counter for each of the O orders.

    Returns:
        (K, K, O) and (K, O).
    """
    num_orders = len(ngrams[0])
    # One column for each n-gram of any text, those of one order side by side.
    places: list[dict[Any, int]] = []
    for order in range(num_orders):
        known = sorted({ngram for text in ngrams for ngram in text[order]})
        places.append({ngram: place for place, ngram in enumerate(known)})
    firsts = [0, *accumulate(map(len, places))]
    counts = np.zeros((len(ngrams), firsts[-1]), dtype=np.int32)
    for row, text in enumerate(ngrams):
        for order, counter in enumerate(text):
            for ngram, count in counter.items():
                counts[row, firsts[order] + places[order][ngram]] = count

    def by_order(values: NDArray[np.int32]) -> Counts:
        sums = np.zeros((len(values), firsts[-1] + 1), dtype=np.int64)
        np.cumsum(values, axis=1, out=sums[:, 1:])
        return np.diff(sums[:, firsts], axis=1)

    matches = np.stack([by_order(np.minimum(row, counts)) for row in counts])
    return matches, by_order(counts)
