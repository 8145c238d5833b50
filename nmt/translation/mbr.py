"""Minimum Bayes risk: select the translation that is most similar to all candidates.

If the candidates are samples of the model, the mean utility of a candidate against all of them
estimates its expected utility under the model (Eikema and Aziz 2020, section 6, equation 8).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from nmt.config import DEFAULT_TOKENIZER, Utility
from nmt.metrics.scores import bleu_metric, chrf_metric

Counts = NDArray[np.int64]


def expected_utilities(
    candidates: Sequence[str], utility: Utility, tokenizer: str = DEFAULT_TOKENIZER
) -> list[float]:
    """Return the mean utility, 0 to 100, of each candidate against all of them, itself included.

    The n-grams of each candidate are counted once. With 64 candidates, this is 5 to 20 times faster
    than calling sacrebleu for each pair. `tokenizer` is that of BLEU.
    """
    counts = Counter(candidates)
    texts = list(counts)
    score: Callable[[Counts, Counts, Counts], float]
    if utility is Utility.chrf:  # chrF2++: one counter for each order of n-grams
        ngrams = chrf_metric()._extract_reference_info(texts)["ref_ngrams"]
        score = _chrf_score
    else:
        metric = bleu_metric(tokenizer, effective_order=True)
        ngrams = [_bleu_ngrams(text, metric) for text in texts]
        score = partial(_bleu_score, metric=metric)
    matches, totals = _overlaps(ngrams)
    utilities = np.array(
        [
            [score(matches[i, j], totals[i], totals[j]) for j in range(len(texts))]
            for i in range(len(texts))
        ]
    )
    weights = np.array(list(counts.values())) / len(candidates)
    means = dict(zip(texts, (utilities @ weights).tolist(), strict=True))
    return [means[candidate] for candidate in candidates]


def _chrf_score(matches: Counts, totals: Counts, reference_totals: Counts) -> float:
    # As in sacrebleu, orders without n-grams in the reference do not count.
    totals = np.where(reference_totals > 0, totals, 0)
    statistics = np.stack((totals, reference_totals, matches), axis=1)
    return float(chrf_metric()._compute_f_score(statistics.ravel().tolist()))


def _bleu_ngrams(text: str, metric: BLEU) -> list[Counter[Any]]:
    """Return the n-grams of BLEU of a text, one counter for each order."""
    info = metric._extract_reference_info([metric._preprocess_segment(text)])
    orders: list[Counter[Any]] = [Counter() for _ in range(metric.max_ngram_order)]
    for ngram, count in info["ref_ngrams"].items():
        orders[len(ngram) - 1][ngram] = count
    return orders


def _bleu_score(matches: Counts, totals: Counts, reference_totals: Counts, metric: BLEU) -> float:
    lengths = [int(totals[0]), int(reference_totals[0])]  # the first order counts tokens
    statistics = [*lengths, *matches.tolist(), *totals.tolist()]
    return float(metric._compute_score_from_stats(statistics).score)


def _overlaps(ngrams: list[list[Counter[Any]]]) -> tuple[Counts, Counts]:
    """Return how many n-grams each two of n texts share, and how many each text has, by order.

    Args:
        ngrams: for each text, a counter for each order.

    Returns:
        Arrays (n, n, orders) and (n, orders).
    """
    matches, totals = [], []
    for of_order in zip(*ngrams, strict=True):
        columns = {ngram: column for column, ngram in enumerate(set().union(*of_order))}
        counts = np.zeros((len(ngrams), len(columns)), dtype=np.int64)
        for row, counter in enumerate(of_order):
            counts[row, [columns[ngram] for ngram in counter]] = list(counter.values())
        matches.append([np.minimum(row, counts).sum(axis=1) for row in counts])
        totals.append(counts.sum(axis=1))
    return np.moveaxis(np.array(matches), 0, -1), np.stack(totals, axis=-1)
