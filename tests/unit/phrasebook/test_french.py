from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from data_prep.phrasebook import times
from data_prep.phrasebook.french_forms import (
    contract,
    elide,
    imperative,
    imperfect_form,
    subjunctive,
)
from data_prep.phrasebook.french_phrases import noun_head
from data_prep.phrasebook.meaning import (
    Anaphor,
    Asked,
    Clause,
    Degree,
    Determiner,
    Existence,
    Front,
    Gap,
    Indefinite,
    Link,
    Modal,
    Mood,
    Polarity,
    Pronoun,
    Quality,
    Relative,
    Role,
    Sentence,
    Subordinate,
    Tense,
    Time,
    TimeKind,
    Whereabouts,
)
from data_prep.phrasebook.text import Notes

if TYPE_CHECKING:
    from tests.unit.phrasebook.conftest import Book

JE, TU = Pronoun(1, False), Pronoun(2, False)
IL, ELLE = Pronoun(3, False, "m"), Pronoun(3, False, "f")
ILS = Pronoun(3, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["je", "aime"], "j'aime"),
        (["la", "eau"], "l'eau"),
        (["parce que", "il"], "parce qu'il"),
        (["si", "il"], "s'il"),
        (["si", "elle"], "si elle"),
        (["le", "\u0001héros"], "le héros"),
        (["le", "haut", "mur"], "le haut mur"),
        (["le", "homme"], "l'homme"),
    ],
)
def test_elision(words: list[str], expected: str) -> None:
    assert " ".join(elide(words)) == expected


def test_contraction() -> None:
    assert contract("à", ["le", "marché"]) == ["au", "marché"]
    assert contract("de", ["les", "amis"]) == ["des", "amis"]
    assert contract("de", ["le", "homme"]) == ["de", "le", "homme"]
    assert contract("à", ["la", "mer"]) == ["à", "la", "mer"]


@pytest.mark.parametrize(
    ("noun", "adjective", "kind", "plural", "expected"),
    [
        ("tree", "beautiful", Determiner.DEFINITE, False, "le bel arbre"),
        ("house", "old", Determiner.INDEFINITE, False, "une vieille maison"),
        ("house", "red", Determiner.DEFINITE, True, "les maisons rouges"),
        ("apple", "beautiful", Determiner.BARE, True, "de belles pommes"),
        ("tree", "old", Determiner.THIS, False, "ce vieil arbre"),
    ],
)
def test_adjectives_agree_and_stand_on_their_side(
    book: Book, noun: str, adjective: str, kind: Determiner, plural: bool, expected: str
) -> None:
    thing = book.the(noun, adjective, determiner=kind, plural=plural)
    assert " ".join(noun_head(thing, Notes())) == expected


def test_possessive_before_a_vowel_is_masculine(book: Book) -> None:
    thing = book.the("school", determiner=Determiner.POSSESSIVE, owner=JE)
    assert noun_head(thing, Notes())[0] == "mon"


def test_verb_forms(book: Book) -> None:
    eat, go = book.verb("eat").french, book.verb("go").french
    assert [imperfect_form(eat.imperfect_stem, index) for index in (0, 3)] == [
        "mangeais",
        "mangions",
    ]
    assert [imperative(eat), imperative(go)] == ["mange", "va"]
    come = book.verb("come").french
    assert [subjunctive(come, index) for index in (0, 3, 5)] == ["vienne", "venions", "viennent"]


def test_object_pronouns_stand_before_their_verb(book: Book) -> None:
    assert book.say(book.do(JE, "see", IL))["fr"] == "Je le vois."
    assert book.say(book.do(JE, "see", IL, modal=Modal.WANT))["fr"] == "Je veux le voir."
    given = book.do(JE, "give", book.the("ball"), recipient=IL, polarity=Polarity.NOT)
    assert book.say(given)["fr"] == "Je ne lui donne pas le ballon."
    seen = book.do(IL, "see", ELLE, tense=Tense.PAST, polarity=Polarity.NOT)
    assert book.say(seen)["fr"] == "Il ne l'a pas vue."


def test_participles_agree(book: Book) -> None:
    gone = book.do(ELLE, "go", tense=Tense.PAST, goal=book.at("market", direction=True))
    assert book.say(gone)["fr"] == "Elle est allée au marché."
    assert book.say(book.do(ILS, "get up", tense=Tense.PAST))["fr"] == "Ils se sont levés."
    letter = book.the("letter")
    clause = book.do(JE, "write", Gap(letter), tense=Tense.PAST)
    thing = book.the("letter", relative=Relative(clause, Role.DIRECT))
    assert book.say(book.do(TU, "read", thing))["fr"] == "Tu lis la lettre que j'ai écrite."


def test_negation_takes_de(book: Book) -> None:
    coffee = book.the("coffee", determiner=Determiner.BARE)
    assert book.say(book.do(JE, "drink", coffee))["fr"] == "Je bois du café."
    clause = book.do(JE, "drink", coffee, polarity=Polarity.NOT)
    assert book.say(clause)["fr"] == "Je ne bois pas de café."
    nothing = book.do(JE, "see", Indefinite.SOMETHING, polarity=Polarity.NOT, tense=Tense.PAST)
    assert book.say(nothing)["fr"] == "Je n'ai rien vu."
    nobody = book.do(Indefinite.NOBODY, "sleep")
    assert book.say(nobody)["fr"] == "Personne ne dort."


def test_orders(book: Book) -> None:
    def order(clause: Clause, please: bool = False) -> str:
        return book.say(Sentence(clause, Mood.IMPERATIVE, please=please))["fr"]

    given = book.do(TU, "give", book.the("ball"), recipient=JE)
    assert order(given) == "Donne-moi le ballon !"
    assert order(book.do(TU, "get up")) == "Lève-toi !"
    stay = book.do(TU, "get up", polarity=Polarity.NOT)
    assert order(stay, please=True) == "Ne te lève pas, s'il te plaît !"


def test_questions(book: Book) -> None:
    polar = Sentence(book.do(IL, "sleep"), Mood.QUESTION)
    assert book.say(polar)["fr"] == "Est-ce qu'il dort ?"
    key = book.the("key", determiner=Determiner.POSSESSIVE, owner=JE)
    where = Sentence(Clause(key, Whereabouts()), Mood.QUESTION, Asked.WHERE)
    assert book.say(where)["fr"] == "Où est ma clé ?"
    what = Sentence(book.do(TU, "eat", Gap()), Mood.QUESTION, Asked.WHAT)
    assert book.say(what)["fr"] == "Qu'est-ce que tu manges ?"


def test_although_wants_the_subjunctive(book: Book) -> None:
    tired = Clause(IL, Quality(book.adjective("tired")), Tense.PAST)
    work = book.do(IL, "work", tense=Tense.PAST)
    sentence = Sentence(work, subordinate=Subordinate(Link.ALTHOUGH, tired))
    assert book.say(sentence)["fr"] == "Il a travaillé bien qu'il soit fatigué."


def test_relative_pronouns(book: Book) -> None:
    man = book.the("man")
    dreamed = book.do(JE, "look after", Gap(man, True))
    thing = book.the("man", relative=Relative(dreamed, Role.DIRECT))
    assert book.say(book.do(thing, "sleep"))["fr"] == "L'homme dont je m'occupe dort."


def test_it_takes_the_gender_of_what_it_means(book: Book) -> None:
    for noun, expected in (("lamp", "Elle est vieille."), ("book", "Il est vieux.")):
        clause = Clause(Anaphor(book.the(noun)), Quality(book.adjective("old")))
        assert book.say(clause)["fr"] == expected


def test_existence_and_comparison(book: Book) -> None:
    dog = book.the("dog", determiner=Determiner.INDEFINITE)
    clause = Clause(
        Indefinite.IT, Existence(dog), Tense.PAST, Polarity.NOT, place=book.at("garden")
    )
    assert book.say(clause)["fr"] == "Il n'y avait pas de chien dans le jardin."
    quality = Quality(book.adjective("big"), Degree.MORE_THAN, than=book.the("dog"))
    bigger = Clause(book.the("cow"), quality)
    assert book.say(bigger)["fr"] == "La vache est plus grande que le chien."


def test_a_fronted_time_is_followed_by_a_comma(book: Book) -> None:
    clause = book.do(IL, "sleep", tense=Tense.PAST, time=Time(adverb=book.adverb("yesterday")))
    assert book.say(Sentence(clause, front=Front.TIME))["fr"] == "Hier, il a dormi."


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (Time(TimeKind.CLOCK, 7, 2), "à sept heures et demie"),
        (Time(TimeKind.CLOCK, 1, 0), "à une heure"),
        (Time(TimeKind.CLOCK, 7, 3), "à huit heures moins le quart"),
        (Time(TimeKind.DATE, 1, 4), "le premier mai"),
        (Time(TimeKind.DATE, 21, 4), "le vingt et un mai"),
        (Time(TimeKind.AGO, 2, 5), "il y a deux ans"),
        (Time(TimeKind.NEXT, 5), "l'année prochaine"),
        (Time(TimeKind.SEASON, 0), "au printemps"),
    ],
)
def test_times(time: Time, expected: str) -> None:
    assert times.french(time) == expected
