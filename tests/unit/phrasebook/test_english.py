from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from data_prep.phrasebook import times
from data_prep.phrasebook.english_phrases import article
from data_prep.phrasebook.meaning import (
    Asked,
    Clause,
    Degree,
    Determiner,
    Gap,
    Indefinite,
    Modal,
    Mood,
    Polarity,
    Pronoun,
    Proper,
    Quality,
    Sentence,
    Tense,
    Time,
    TimeKind,
)

if TYPE_CHECKING:
    from tests.unit.phrasebook.conftest import Book

ME = Pronoun(1, False)
HE, SHE = Pronoun(3, False, "m"), Pronoun(3, False, "f")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("apple", "an"), ("dog", "a"), ("hour", "an"), ("university", "a"), ("uncle", "an")],
)
def test_article(word: str, expected: str) -> None:
    assert article(word) == expected


@pytest.mark.parametrize(
    ("tense", "polarity", "expected"),
    [
        (Tense.PRESENT, Polarity.POSITIVE, "She reads the book."),
        (Tense.PRESENT, Polarity.NOT, "She doesn't read the book."),
        (Tense.PAST, Polarity.NOT, "She didn't read the book."),
        (Tense.FUTURE, Polarity.NOT, "She won't read the book."),
        (Tense.PERFECT, Polarity.POSITIVE, "She has already read the book."),
        (Tense.PERFECT, Polarity.NOT_YET, "She hasn't read the book yet."),
        (Tense.PRESENT, Polarity.NEVER, "She never reads the book."),
        (Tense.PRESENT, Polarity.NO_LONGER, "She no longer reads the book."),
        (Tense.PROGRESSIVE, Polarity.NOT, "She isn't reading the book."),
    ],
)
def test_tense_and_negation(book: Book, tense: Tense, polarity: Polarity, expected: str) -> None:
    clause = book.do(SHE, "read", book.the("book"), tense=tense, polarity=polarity)
    assert book.say(clause)["en"] == expected


@pytest.mark.parametrize(
    ("modal", "tense", "polarity", "expected"),
    [
        (Modal.CAN, Tense.PAST, Polarity.NOT, "He couldn't sleep."),
        (Modal.MUST, Tense.PAST, Polarity.POSITIVE, "He had to sleep."),
        (Modal.WANT, Tense.PRESENT, Polarity.NOT, "He doesn't want to sleep."),
        (Modal.MAY, Tense.PAST, Polarity.POSITIVE, "He was allowed to sleep."),
        (Modal.WOULD_LIKE, Tense.PRESENT, Polarity.NOT, "He wouldn't like to sleep."),
    ],
)
def test_modals(book: Book, modal: Modal, tense: Tense, polarity: Polarity, expected: str) -> None:
    clause = book.do(HE, "sleep", modal=modal, tense=tense, polarity=polarity)
    assert book.say(clause)["en"] == expected


def test_particles_follow_pronouns(book: Book) -> None:
    lamp = book.do(ME, "turn on", book.the("lamp"))
    assert book.say(lamp)["en"] == "I turn on the lamp."
    assert book.say(book.do(ME, "look for", HE))["en"] == "I look for him."


def test_questions(book: Book) -> None:
    past = Sentence(book.do(HE, "sleep", tense=Tense.PAST), Mood.QUESTION)
    assert book.say(past)["en"] == "Did he sleep?"
    who = Sentence(book.do(Gap(person=True), "sleep"), Mood.QUESTION, Asked.WHO)
    assert book.say(who)["en"] == "Who sleeps?"
    what = Sentence(book.do(HE, "eat", Gap()), Mood.QUESTION, Asked.WHAT)
    assert book.say(what)["en"] == "What does he eat?"


def test_anything_under_negation(book: Book) -> None:
    clause = book.do(ME, "see", Indefinite.SOMETHING, polarity=Polarity.NOT)
    assert book.say(clause)["en"] == "I don't see anything."
    dogs = book.the("dog", determiner=Determiner.BARE, plural=True)
    assert (
        book.say(book.do(ME, "see", dogs, polarity=Polarity.NOT))["en"] == "I don't see any dogs."
    )


def test_possessor_and_comparison(book: Book) -> None:
    name = next(name for name in book.lexicon.names if name.text == "Anna")
    thing = book.the("dog", "big", possessor=Proper(name))
    assert book.say(book.do(ME, "see", thing))["en"] == "I see Anna's big dog."
    quality = Quality(book.adjective("big"), Degree.MORE_THAN, than=book.the("dog"))
    assert book.say(Clause(book.the("cow"), quality))["en"] == "The cow is bigger than the dog."


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (Time(TimeKind.CLOCK, 7, 2), "at half past seven"),
        (Time(TimeKind.DATE, 22, 4), "on the twenty-second of May"),
        (Time(TimeKind.DATE, 12, 0), "on the twelfth of January"),
        (Time(TimeKind.DATE, 20, 0), "on the twentieth of January"),
        (Time(TimeKind.AGO, 1, 2), "one day ago"),
        (Time(TimeKind.EVERY, 3), "every week"),
    ],
)
def test_times(time: Time, expected: str) -> None:
    assert times.english(time) == expected
