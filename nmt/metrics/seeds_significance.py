"""Significance of the difference between two configurations that were trained with several seeds.

The test is paired bootstrap resampling (Koehn 2004) over the sentences of a test set. The score of
a configuration on a resample is its corpus BLEU, averaged over its seeds. The p-value covers the
choice of sentences. It does not cover the choice of seeds, whose effect the standard deviation over
seeds shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nmt.config import DEFAULT_TOKENIZER
from nmt.metrics.scores import bleu_metric, check_scorable

NUM_RESAMPLES = 1_000
_SEED = 12345


@dataclass(frozen=True)
class SeedsDifference:
    """Mean BLEU of a configuration minus that of the best one, with its two-sided p-value."""

    difference: float
    p: float


def mean_scores(
    configurations: Sequence[Sequence[Sequence[str]]],
    references: Sequence[str],
    tokenizer: str = DEFAULT_TOKENIZER,
) -> np.ndarray:
    """Compute BLEU averaged over seeds; each configuration has the translations of each seed.

    Returns:
        (configurations, 1 + resamples): the score on the test set, then the score on each resample.
        The resamples are the same for all configurations.
    """
    # With references given here, the metric counts their n-grams only once.
    metric = bleu_metric(tokenizer, references=[references])
    generator = np.random.default_rng(_SEED)
    number = len(references)
    # How often each sentence occurs in each resample; the test set itself is added as row 0.
    counts = generator.multinomial(number, np.full(number, 1 / number), NUM_RESAMPLES)
    counts = np.concatenate([np.ones((1, number)), counts])  # (1 + resamples, sentences)

    def scores(hypotheses: Sequence[str]) -> list[float]:
        check_scorable(hypotheses, references)
        sums = counts @ np.array(metric._extract_corpus_statistics(hypotheses, None), dtype=float)
        return [metric._compute_score_from_stats(row).score for row in sums]

    return np.array([np.mean([scores(one) for one in seeds], axis=0) for seeds in configurations])


def seeds_difference(scores: np.ndarray, best: np.ndarray) -> SeedsDifference:
    """Compare two rows of `mean_scores`.

    p is (k + 1) / (n + 1) for n resamples. In k of them, the difference deviates from its mean over
    all resamples by at least as much as the difference on the test set deviates from 0.
    """
    difference, *resampled = scores - best
    if difference == 0:
        return SeedsDifference(0.0, 1.0)
    deviations = np.abs(np.array(resampled) - np.mean(resampled))
    as_large = int((deviations >= abs(difference)).sum())
    return SeedsDifference(float(difference), (as_large + 1) / (len(resampled) + 1))
