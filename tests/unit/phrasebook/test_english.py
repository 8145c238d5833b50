import pytest

from data_prep.phrasebook import meaning as m
from data_prep.phrasebook import times
from tests.unit.phrasebook.conftest import Book

ME = m.Pronoun(1, False)
HE, SHE = m.Pronoun(3, False, "m"), m.Pronoun(3, False, "f")


@pytest.mark.parametrize(
    ("tense", "polarity", "expected"),
    [
        (m.Tense.PRESENT, m.Polarity.POSITIVE, "She reads the book."),
        (m.Tense.PAST, m.Polarity.NOT, "She didn't read the book."),
        (m.Tense.FUTURE, m.Polarity.NOT, "She won't read the book."),
        (m.Tense.PERFECT, m.Polarity.POSITIVE, "She has already read the book."),
        (m.Tense.PERFECT, m.Polarity.NOT_YET, "She hasn't read the book yet."),
        (m.Tense.PRESENT, m.Polarity.NEVER, "She never reads the book."),
        (m.Tense.PRESENT, m.Polarity.NO_LONGER, "She no longer reads the book."),
        (m.Tense.PROGRESSIVE, m.Polarity.NOT, "She isn't reading the book."),
    ],
)
def test_tense_and_negation(
    book: Book, tense: m.Tense, polarity: m.Polarity, expected: str
) -> None:
    clause = book.do(SHE, "read", book.the("book"), tense=tense, polarity=polarity)
    assert book.en(clause) == expected


@pytest.mark.parametrize(
    ("modal", "tense", "polarity", "expected"),
    [
        (m.Modal.CAN, m.Tense.PAST, m.Polarity.NOT, "He couldn't sleep."),
        (m.Modal.MUST, m.Tense.PAST, m.Polarity.POSITIVE, "He had to sleep."),
        (m.Modal.WANT, m.Tense.PRESENT, m.Polarity.NOT, "He doesn't want to sleep."),
        (m.Modal.MAY, m.Tense.PAST, m.Polarity.POSITIVE, "He was allowed to sleep."),
    ],
)
def test_modals(
    book: Book, modal: m.Modal, tense: m.Tense, polarity: m.Polarity, expected: str
) -> None:
    clause = book.do(HE, "sleep", modal=modal, tense=tense, polarity=polarity)
    assert book.en(clause) == expected


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


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (m.Time(m.TimeKind.CLOCK, 7, 2), "at half past seven"),
        (m.Time(m.TimeKind.DATE, 22, 4), "on the twenty-second of May"),
        (m.Time(m.TimeKind.DATE, 12, 0), "on the twelfth of January"),
        (m.Time(m.TimeKind.DATE, 20, 0), "on the twentieth of January"),
        (m.Time(m.TimeKind.AGO, 1, 2), "one day ago"),
        (m.Time(m.TimeKind.EVERY, 3), "every week"),
    ],
)
def test_times(time: m.Time, expected: str) -> None:
    assert times.english(time) == expected
