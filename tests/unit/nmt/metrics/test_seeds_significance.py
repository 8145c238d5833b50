"""Significance between configurations with several seeds."""

from functools import partial

import numpy as np
import pytest

from nmt.base.errors import UserError
from nmt.metrics.scores import bleu_score
from nmt.metrics.seeds_significance import mean_scores, seeds_difference
from nmt.metrics.significance import compare
from tests.support import random_words, with_noise

REFERENCES = random_words(80, 3)
noisy = partial(with_noise, REFERENCES)


def scores_of(*seeds: list[str]) -> np.ndarray:
    """Score a configuration with these translations."""
    return mean_scores([seeds], REFERENCES)[0]


def test_score_is_the_mean_of_corpus_bleu_over_the_seeds() -> None:
    systems = [noisy(0.1, seed) for seed in (1, 2, 3)]
    scores = scores_of(*systems)
    alone = [bleu_score(system, REFERENCES).score for system in systems]
    assert scores[0] == pytest.approx(np.mean(alone))
    # The resamples are those of each system, averaged one by one.
    assert scores == pytest.approx(np.mean([scores_of(system) for system in systems], axis=0))
    assert scores[1:].mean() == pytest.approx(scores[0], abs=1)
    assert scores[1:].std() > 0.1


def test_tokens_are_those_of_the_language() -> None:
    references = ["我昨天买了书。", "他今天去了北京。"]
    assert mean_scores([[references]], references, "zh")[0] == pytest.approx(100)


def test_with_one_seed_p_is_near_that_of_a_two_sided_test() -> None:
    """Approximate randomisation is two-sided; sacrebleu's bootstrap is not."""
    best, other = noisy(0.10, 1), noisy(0.13, 2)
    expected = compare(best, other, REFERENCES)["bleu"]
    found = seeds_difference(scores_of(other), scores_of(best))
    assert found.difference == pytest.approx(expected.difference)
    assert 0.01 < expected.p_randomisation < 0.5
    assert found.p == pytest.approx(expected.p_randomisation, abs=0.03)


def test_p_is_small_for_a_clear_and_large_for_no_difference() -> None:
    best = scores_of(noisy(0.1, 1), noisy(0.1, 2))
    clear = seeds_difference(scores_of(noisy(0.3, 3), noisy(0.3, 4)), best)
    assert clear.difference < -10
    assert clear.p == 1 / 1001
    assert seeds_difference(best, best).p == 1
    chance = seeds_difference(scores_of(noisy(0.1, 7), noisy(0.1, 8)), best)
    assert chance.p > 0.1


def test_translations_of_another_text_are_rejected() -> None:
    with pytest.raises(UserError, match="79 translations for 80 references"):
        scores_of(REFERENCES[1:])
