import time

import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.config import Utility
from nmt.metrics.scores import metrics
from nmt.translation.mbr import expected_utilities
from tests.support import made_up_sentences

CANDIDATES = [
    "Ein Mann reitet auf einem Pferd.",
    "Ein Mann reitet ein Pferd.",
    "Der Mann reitet.",
    "Ein Mann reitet auf einem Pferd.",
    "",
    "Hund",
    "!",
]


@pytest.mark.parametrize("utility", list(Utility))
@pytest.mark.parametrize("candidates", [CANDIDATES, CANDIDATES[:1], ["", ""], ["a", "b"]])
def test_utilities_are_those_of_sacrebleu(utility: Utility, candidates: list[str]) -> None:
    metric = {Utility.chrf: metrics()["chrf"], Utility.bleu: BLEU(effective_order=True)}[utility]
    expected = [
        sum(metric.sentence_score(one, [other]).score for other in candidates) / len(candidates)
        for one in candidates
    ]
    assert expected_utilities(candidates, utility) == pytest.approx(expected, abs=1e-9)


def test_most_similar_candidate_is_best() -> None:
    utilities = expected_utilities(CANDIDATES, Utility.chrf)
    assert utilities[0] == utilities[3] == max(utilities)


@pytest.mark.parametrize("utility", list(Utility))
def test_32_candidates_take_less_than_half_a_second(utility: Utility) -> None:
    began = time.process_time()
    expected_utilities(made_up_sentences(32), utility)
    assert time.process_time() - began < 0.5
