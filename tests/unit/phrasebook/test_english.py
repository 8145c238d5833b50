import pytest

from data_prep.phrasebook import meaning as m
from tests.unit.phrasebook.conftest import Book

ME = m.Pronoun(1, False)
HE, SHE = m.Pronoun(3, False, "m"), m.Pronoun(3, False, "f")


NOT = m.Polarity.NOT


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "She reads the book."),
        ({"tense": m.Tense.PAST, "polarity": NOT}, "She didn't read the book."),
        ({"tense": m.Tense.FUTURE, "polarity": NOT}, "She won't read the book."),
        ({"tense": m.Tense.PERFECT}, "She has already read the book."),
        (
            {"tense": m.Tense.PERFECT, "polarity": m.Polarity.NOT_YET},
            "She hasn't read the book yet.",
        ),
        ({"polarity": m.Polarity.NEVER}, "She never reads the book."),
        ({"polarity": m.Polarity.NO_LONGER}, "She no longer reads the book."),
        ({"tense": m.Tense.PROGRESSIVE, "polarity": NOT}, "She isn't reading the book."),
        (
            {"modal": m.Modal.CAN, "tense": m.Tense.PAST, "polarity": NOT},
            "She couldn't read the book.",
        ),
        ({"modal": m.Modal.MUST, "tense": m.Tense.PAST}, "She had to read the book."),
        ({"modal": m.Modal.WANT, "polarity": NOT}, "She doesn't want to read the book."),
        ({"modal": m.Modal.MAY, "tense": m.Tense.PAST}, "She was allowed to read the book."),
    ],
)
def test_tense_modal_and_negation(book: Book, changes: dict[str, object], expected: str) -> None:
    assert book.en(book.do(SHE, "read", book.the("book"), **changes)) == expected


def test_objects(book: Book) -> None:
    lamp = book.do(ME, "turn on", book.the("lamp"))
    assert book.en(lamp) == "I turn on the lamp."
    assert book.en(book.do(ME, "look for", HE)) == "I look for him."
    clause = book.do(ME, "see", m.Indefinite.SOMETHING, polarity=m.Polarity.NOT)
    assert book.en(clause) == "I don't see anything."


def test_questions(book: Book) -> None:
    past = m.Sentence(book.do(HE, "sleep", tense=m.Tense.PAST), m.Mood.QUESTION)
    assert book.en(past) == "Did he sleep?"
    who = m.Sentence(book.do(m.Gap(person=True), "sleep"), m.Mood.QUESTION, m.Asked.WHO)
    assert book.en(who) == "Who sleeps?"
    what = m.Sentence(book.do(HE, "eat", m.Gap()), m.Mood.QUESTION, m.Asked.WHAT)
    assert book.en(what) == "What does he eat?"


def test_possessor_and_comparison(book: Book) -> None:
    name = next(name for name in book.lexicon.names if name.text == "Anna")
    thing = book.the("dog", "big", possessor=m.Proper(name))
    assert book.en(book.do(ME, "see", thing)) == "I see Anna's big dog."
    quality = m.Quality(book.adjective("big"), m.Degree.MORE_THAN, than=book.the("dog"))
    assert book.en(m.Clause(book.the("cow"), quality)) == "The cow is bigger than the dog."
