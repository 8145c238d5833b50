"""Significance of the difference between two configurations that were trained with several seeds.

The test is paired bootstrap resampling (Koehn 2004) over the sentences of a test set. The score of
a configuration on a resample is its corpus BLEU, averaged over its seeds. The p-value covers the
choice of sentences. It does not cover the choice of seeds, whose effect the standard deviation over
seeds shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from nmt.metrics.scores import check_aligned

NUM_RESAMPLES = 1_000
_SEED = 12345


@dataclass(frozen=True)
class SeedsDifference:
    """Mean BLEU of a configuration minus that of the best one, with its two-sided p-value."""

    difference: float
    p: float


class SeedsBootstrap:
    """Compares configurations on the same resamples of one test set."""

    def __init__(self, references: Sequence[str]) -> None:
        self._references = references
        # With references given here, the metric counts their n-grams only once.
        self._metric = BLEU(force=True, references=[references])
        generator = np.random.default_rng(_SEED)
        number = len(references)
        # How often each sentence occurs in each resample; the test set itself is added as row 0.
        counts = generator.multinomial(number, np.full(number, 1 / number), NUM_RESAMPLES)
        self._counts = np.concatenate([np.ones((1, number)), counts])  # (1 + resamples, sentences)

    def mean_scores(self, systems: Sequence[Sequence[str]]) -> np.ndarray:
        """Compute BLEU averaged over seeds; `systems` has the translations of each seed.

        Returns:
            The score on the test set, then the score on each resample.
        """
        return np.mean([self._scores(hypotheses) for hypotheses in systems], axis=0)

    def _scores(self, hypotheses: Sequence[str]) -> np.ndarray:
        check_aligned(hypotheses, self._references)
        statistics = self._metric._extract_corpus_statistics(hypotheses, None)
        sums = self._counts @ np.array(statistics, dtype=float)
        return np.array([self._metric._compute_score_from_stats(row).score for row in sums])


def seeds_difference(scores: np.ndarray, best: np.ndarray) -> SeedsDifference:
    """Compare two results of `SeedsBootstrap.mean_scores`.

    p is (k + 1) / (n + 1) for n resamples. In k of them, the difference deviates from its mean over
    all resamples by at least as much as the difference on the test set deviates from 0.
    """
    difference, *resampled = scores - best
    if difference == 0:
        return SeedsDifference(0.0, 1.0)
    deviations = np.abs(np.array(resampled) - np.mean(resampled))
    as_large = int((deviations >= abs(difference)).sum())
    return SeedsDifference(float(difference), (as_large + 1) / (len(resampled) + 1))
