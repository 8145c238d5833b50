import math
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from nmt.base.files import read_lines
from nmt.metrics.paper_form import lowercase_form, paper_form
from nmt.metrics.scores import all_scores

MULTI30K = Path(__file__).parents[5] / "shared" / "data" / "multi30k"


@pytest.mark.parametrize(
    ("language", "raw", "form"),
    [
        # Punctuation is separated; abbreviations and ordinals keep their full stop.
        ("de", "Das kostet z. B. 3.500,50 Euro.", "Das kostet z. B. 3.500,50 Euro ."),
        ("de", "Am 3. Mai, um 5 Uhr...", "Am 3. Mai , um 5 Uhr ..."),
        # Unicode punctuation is replaced first: ’ becomes '.
        ("de", "Geht’s?", "Geht ' s ?"),
        # A German compound becomes three tokens; as in the script, matches do not overlap.
        ("de", "ein Rich-Text-Format", "ein Rich ##AT##-##AT## Text ##AT##-##AT## Format"),
        ("de", "a-b-c", "a ##AT##-##AT## b-c"),
        ("de", "10 - 12", "10 - 12"),
        # Entities are not used.
        ("de", "A & B <c>", "A & B < c >"),
        ("en", "a rich-text format.", "a rich-text format ."),
        ("fr", "l’arc-en-ciel est-il beau?", "l' arc-en-ciel est-il beau ?"),
        # A language unknown to Moses is tokenised, too.
        ("eo", "Saluton, mondo!", "Saluton , mondo !"),
    ],
)
def test_paper_form(language: str, raw: str, form: str) -> None:
    assert paper_form(language).convert(raw) == form


@pytest.mark.parametrize(
    ("language", "raw", "form"),
    [
        ("de", "Ein Mann, der „Los!“ ruft.", 'ein mann , der " los ! " ruft .'),
        ("de", "Über saftig-grünes Gras.", "über saftig-grünes gras ."),
        ("fr", "L’herbe près d’un étang.", "l' herbe près d' un étang ."),
    ],
)
def test_lowercase_form(language: str, raw: str, form: str) -> None:
    assert lowercase_form(language).convert(raw) == form


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="../shared/data/multi30k is missing")
def test_lowercase_references_have_the_published_length() -> None:
    """reflen=12103 in the log published by Wu et al. 2021."""
    form = lowercase_form("de")
    references = read_lines(MULTI30K / "test_2016_flickr.de")
    assert sum(len(form.convert(line).split()) for line in references) == 12_103


HYPOTHESIS = "Das ist ein Text-Format."
REFERENCE = "Das war ein Text-Format."


def test_paper_bleu_by_hand() -> None:
    """German: `Das ist ein Text ##AT##-##AT## Format .` has 7 tokens, one of them wrong.

    Matching n-grams: 6 of 7; 4 of 6 (all except those with `ist`); 3 of 5; 2 of 4. The lengths are
    equal, so there is no brevity penalty.
    """
    scores = all_scores([HYPOTHESIS], [REFERENCE], language="de")
    expected = 100 * math.exp(sum(map(math.log, (6 / 7, 4 / 6, 3 / 5, 2 / 4))) / 4)
    assert scores.paper_bleu.score == pytest.approx(expected)
    assert scores.paper_bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:none|smooth:none|")
    assert scores.paper_bleu.signature.endswith("-de+atat")
    # BLEU on raw text has other tokens.
    assert scores.bleu.score == BLEU().corpus_score([HYPOTHESIS], [[REFERENCE]]).score
    assert scores.bleu.score != pytest.approx(scores.paper_bleu.score)
    other_case = all_scores([REFERENCE.lower()], [REFERENCE], language="de")
    assert other_case.paper_bleu.score < 100


def test_paper_bleu_without_compounds_by_hand() -> None:
    """English: `Das ist ein Text-Format .` matches 4 of 5, 2 of 4, 1 of 3 and 0 of 2 n-grams, and
    without smoothing the score is 0, as in multi-bleu.perl.
    """
    scores = all_scores([HYPOTHESIS], [REFERENCE], language="en")
    assert scores.paper_bleu.score == pytest.approx(0)
    assert scores.paper_bleu.signature.endswith("-en")


def test_brevity_by_hand() -> None:
    """8 tokens for 10 of the reference: the penalty is exp(1 - 10 / 8); all n-grams match."""
    reference = "eins zwei drei vier fünf sechs sieben acht neun zehn"
    hypothesis = "eins zwei drei vier fünf sechs sieben acht"
    scores = all_scores([hypothesis], [reference], language="de")
    penalty = math.exp(1 - 10 / 8)
    assert scores.paper_bleu.score == pytest.approx(100 * penalty)
    assert scores.bleu.score == pytest.approx(100 * penalty)
    assert scores.brevity_penalty == pytest.approx(penalty)
    assert scores.length_ratio == pytest.approx(0.8)


def test_lowercase_bleu_by_hand() -> None:
    """`das ist ein text-format , so !` has 7 tokens, one of them wrong."""
    scores = all_scores(
        ["Das IST ein Text-Format, so!"], ["das war ein text-format, so!"], language="de"
    )
    expected = 100 * math.exp(sum(map(math.log, (6 / 7, 4 / 6, 3 / 5, 2 / 4))) / 4)
    assert scores.lowercase_bleu.score == pytest.approx(expected)
    signature = scores.lowercase_bleu.signature
    assert signature.startswith("nrefs:1|case:lc|eff:no|tok:none|smooth:none|")
    assert signature.endswith("-de+norm")
