from functools import partial

import pytest
import sacrebleu

from nmt.errors import UserError
from nmt.evaluation.scores import all_scores, bleu_score

HYPOTHESES = ["the cat sat on the mat .", "a dog runs fast through the park", "hello world again"]
REFERENCES = ["the cat sat on a mat .", "a dog runs quickly through the park", "hello world again"]


def test_scores_are_sacrebleus() -> None:
    scores = all_scores(HYPOTHESES, REFERENCES, language="de")
    references = [REFERENCES]
    assert scores.bleu.score == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, references).score)
    chrf = sacrebleu.corpus_chrf(HYPOTHESES, references, word_order=2)
    assert scores.chrf.score == pytest.approx(chrf.score)
    assert scores.ter.score == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, references).score)
    assert scores.sentences == 3


def test_signatures_are_those_that_people_compare() -> None:
    scores = all_scores(HYPOTHESES, REFERENCES, language="de")
    version = sacrebleu.__version__
    assert scores.bleu.signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    )
    assert scores.chrf.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:2")
    assert scores.ter.signature.startswith("nrefs:1|case:lc|tok:tercom")
    assert bleu_score(HYPOTHESES, REFERENCES).signature == scores.bleu.signature


def test_intervals_are_the_same_every_time() -> None:
    first, second = (all_scores(HYPOTHESES, REFERENCES, language="de") for _ in range(2))
    assert first == second
    assert first.bleu.ci95 is not None
    assert first.bleu.ci95 > 0


def test_perfect_translations_have_the_perfect_score() -> None:
    scores = all_scores(REFERENCES, REFERENCES, language="de")
    assert (scores.bleu.score, scores.chrf.score) == pytest.approx((100, 100))
    assert scores.ter.score == 0


def test_validation_bleu_is_the_same_number_without_an_interval() -> None:
    score = bleu_score(HYPOTHESES, REFERENCES)
    assert score.ci95 is None
    assert score.score == all_scores(HYPOTHESES, REFERENCES, language="de").bleu.score


def test_empty_translations_are_scored_and_not_refused() -> None:
    assert bleu_score(["", ""], ["a b", "c d"]).score == 0
    assert all_scores(["", ""], ["a b", "c d"], language="de").ter.score == 100


def test_the_layout_of_the_file() -> None:
    table = all_scores(HYPOTHESES, REFERENCES, language="de").to_json()
    scores = ["bleu", "chrf", "ter", "paper_bleu", "lowercase_bleu"]
    assert list(table) == [*scores, "brevity_penalty", "length_ratio", "sentences", "references"]
    assert all(set(table[name]) == {"score", "signature", "ci95"} for name in scores)


@pytest.mark.parametrize("score", [bleu_score, partial(all_scores, language="de")])
def test_sides_that_differ_in_number_are_refused(score: object) -> None:
    with pytest.raises(UserError, match="2 translations for 3 references"):
        score(HYPOTHESES[:2], REFERENCES)  # type: ignore[operator]
    with pytest.raises(UserError, match="nothing to score"):
        score([], [])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        (["1 2 3", "4 5 6"] * 2, ["1 2 3", "9 8 7"] * 2),
        (["", "", "", "q r s t"], ["a b c d e"] * 3 + ["q r s t"]),
        (["a", "b"], ["", "b"]),
        (["x"], ["y"]),
    ],
)
def test_translations_with_hardly_a_match_have_intervals_too(
    hypotheses: list[str], references: list[str]
) -> None:
    """Some resamples hold no match at all."""
    scores = all_scores(hypotheses, references, language="de")
    assert all(score.ci95 is not None for score in (scores.bleu, scores.chrf, scores.ter))
    assert scores.paper_bleu.ci95 is not None


def test_several_references_count_together() -> None:
    """The first sentence is in the first set of references, the second one in the second."""
    ours = ["the cat sat on the mat", "a dog runs fast through it"]
    one = [ours[0], "no word of that is here"]
    two = ["nor is anything in this one", ours[1]]
    assert bleu_score(ours, one).score < 100
    assert bleu_score(ours, one, two).score == pytest.approx(100)
    scores = all_scores(ours, one, two, language="de")
    assert scores.paper_bleu.score == pytest.approx(100)
    assert scores.ter.score == 0
    assert scores.references == 2
    assert scores.bleu.signature.startswith("nrefs:2|")
    assert scores.bleu.score == sacrebleu.corpus_bleu(ours, [one, two]).score
