import math
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.evaluation.paper_form import LowercaseForm, PaperForm
from nmt.evaluation.scores import all_scores
from nmt.files import read_lines

MULTI30K = Path(__file__).parents[5] / "shared" / "data" / "multi30k"


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        # Moses: punctuation stands alone, an abbreviation and an ordinal keep their full stop.
        ("Das kostet z. B. 3.500,50 Euro.", "Das kostet z. B. 3.500,50 Euro ."),
        ("Am 3. Mai, um 5 Uhr...", "Am 3. Mai , um 5 Uhr ..."),
        # Unicode punctuation is made plain first: ’ is '.
        ("Geht’s?", "Geht ' s ?"),
        # Compounds: one token becomes three.
        ("ein Rich-Text-Format", "ein Rich ##AT##-##AT## Text ##AT##-##AT## Format"),
        # As the script has it: the letter between two hyphens is used up by the first of them.
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("10 - 12", "10 - 12"),
        # No entities.
        ("A & B <c>", "A & B < c >"),
    ],
)
def test_german_in_the_papers_form(raw: str, form: str) -> None:
    assert PaperForm("de").text(raw) == form


def test_compounds_are_german_alone() -> None:
    assert PaperForm("en").text("a rich-text format.") == "a rich-text format ."
    assert PaperForm("fr").text("l’arc-en-ciel est-il beau?") == "l' arc-en-ciel est-il beau ?"


def test_a_language_without_abbreviations_of_its_own_is_tokenised_too() -> None:
    assert PaperForm("eo").text("Saluton, mondo!") == "Saluton , mondo !"


@pytest.mark.parametrize(
    ("language", "raw", "form"),
    [
        ("de", "Ein Mann, der „Los!“ ruft.", 'ein mann , der " los ! " ruft .'),
        ("de", "Über saftig-grünes Gras.", "über saftig-grünes gras ."),
        ("fr", "L’herbe près d’un étang.", "l' herbe près d' un étang ."),
    ],
)
def test_lower_cased_form(language: str, raw: str, form: str) -> None:
    assert LowercaseForm(language).text(raw) == form


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="../shared/data/multi30k is not there")
def test_lower_cased_references_have_the_length_that_others_report() -> None:
    """reflen=12103 in the log of the model that Wu et al. 2021 gave out."""
    form = LowercaseForm("de")
    references = read_lines(MULTI30K / "test_2016_flickr.de")
    assert sum(len(form.text(line).split()) for line in references) == 12_103


HYPOTHESIS = "Das ist ein Text-Format."
REFERENCE = "Das war ein Text-Format."


def test_paper_bleu_by_hand() -> None:
    """German: `Das ist ein Text ##AT##-##AT## Format .` has 7 tokens, and one of them is wrong.

    n-grams that match: 6 of 7; 4 of 6 (all but those with `ist`); 3 of 5; 2 of 4. The lengths are
    equal, so there is no brevity penalty.
    """
    scores = all_scores([HYPOTHESIS], [REFERENCE], language="de")
    expected = 100 * math.exp(sum(map(math.log, (6 / 7, 4 / 6, 3 / 5, 2 / 4))) / 4)
    assert scores.paper_bleu.score == pytest.approx(expected)
    assert scores.paper_bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:none|smooth:none|")
    assert scores.paper_bleu.signature.endswith("-de+atat")


def test_without_compounds_it_is_bleu_on_five_tokens() -> None:
    """English: `Das ist ein Text-Format .` matches 4 of 5, 2 of 4, 1 of 3 and 0 of 2: no smoothing,
    so the score is nothing, as multi-bleu.perl has it.
    """
    scores = all_scores([HYPOTHESIS], [REFERENCE], language="en")
    assert scores.paper_bleu.score == pytest.approx(0)
    assert scores.paper_bleu.signature.endswith("-en")


def test_brevity_by_hand() -> None:
    """8 tokens where the reference has 10: the penalty is exp(1 - 10 / 8); all n-grams match."""
    reference = "eins zwei drei vier fünf sechs sieben acht neun zehn"
    hypothesis = "eins zwei drei vier fünf sechs sieben acht"
    scores = all_scores([hypothesis], [reference], language="de")
    penalty = math.exp(1 - 10 / 8)
    assert scores.paper_bleu.score == pytest.approx(100 * penalty)
    assert scores.bleu.score == pytest.approx(100 * penalty)
    assert scores.brevity_penalty == pytest.approx(penalty)
    assert scores.length_ratio == pytest.approx(0.8)


def test_case_counts() -> None:
    scores = all_scores(["das war ein Text-Format."], [REFERENCE], language="de")
    assert scores.paper_bleu.score < 100


def test_lower_cased_bleu_by_hand() -> None:
    """`das ist ein text-format , so !` has 7 tokens, and one of them is wrong."""
    scores = all_scores(
        ["Das IST ein Text-Format, so!"], ["das war ein text-format, so!"], language="de"
    )
    expected = 100 * math.exp(sum(map(math.log, (6 / 7, 4 / 6, 3 / 5, 2 / 4))) / 4)
    assert scores.lowercase_bleu.score == pytest.approx(expected)
    signature = scores.lowercase_bleu.signature
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:none|smooth:none|")
    assert signature.endswith("-de+norm")


def test_raw_text_with_sacrebleus_tokens_is_another_number() -> None:
    scores = all_scores([HYPOTHESIS], [REFERENCE], language="de")
    assert scores.bleu.score == BLEU().corpus_score([HYPOTHESIS], [[REFERENCE]]).score
    assert scores.bleu.score != pytest.approx(scores.paper_bleu.score)
