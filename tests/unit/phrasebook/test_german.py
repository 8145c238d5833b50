from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from data_prep.phrasebook import german, times
from data_prep.phrasebook.german_forms import contract, present, preterite
from data_prep.phrasebook.german_phrases import noun_head
from data_prep.phrasebook.meaning import (
    Anaphor,
    Asked,
    Clause,
    Degree,
    Determiner,
    Front,
    Gap,
    Identity,
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
)
from data_prep.phrasebook.text import Notes

if TYPE_CHECKING:
    from tests.unit.phrasebook.conftest import Book

ICH, DU = Pronoun(1, False), Pronoun(2, False)
ER, SIE = Pronoun(3, False, "m"), Pronoun(3, False, "f")


@pytest.mark.parametrize(
    ("noun", "case", "kind", "plural", "expected"),
    [
        ("dog", "nom", Determiner.DEFINITE, False, "der alte Hund"),
        ("dog", "acc", Determiner.DEFINITE, False, "den alten Hund"),
        ("dog", "dat", Determiner.DEFINITE, False, "dem alten Hund"),
        ("cat", "dat", Determiner.DEFINITE, False, "der alten Katze"),
        ("dog", "nom", Determiner.INDEFINITE, False, "ein alter Hund"),
        ("horse", "acc", Determiner.INDEFINITE, False, "ein altes Pferd"),
        ("horse", "dat", Determiner.INDEFINITE, False, "einem alten Pferd"),
        ("dog", "nom", Determiner.BARE, True, "alte Hunde"),
        ("dog", "dat", Determiner.BARE, True, "alten Hunden"),
        ("dog", "acc", Determiner.THIS, True, "diese alten Hunde"),
        ("dog", "nom", Determiner.MANY, True, "viele alte Hunde"),
        ("dog", "dat", Determiner.ALL, True, "allen alten Hunden"),
        ("boy", "acc", Determiner.DEFINITE, False, "den alten Jungen"),
        ("neighbour", "dat", Determiner.INDEFINITE, False, "einem alten Nachbarn"),
    ],
)
def test_noun_phrases_agree_in_case_gender_and_number(
    book: Book, noun: str, case: str, kind: Determiner, plural: bool, expected: str
) -> None:
    thing = book.the(noun, "old", determiner=kind, plural=plural)
    assert " ".join(noun_head(thing, case, Notes())) == expected


def test_kein_takes_mixed_endings(book: Book) -> None:
    thing = book.the("car", "new", determiner=Determiner.INDEFINITE)
    assert " ".join(noun_head(thing, "acc", Notes(), negated=True)) == "kein neues Auto"


def test_stems_lose_their_e(book: Book) -> None:
    assert noun_head(book.the("ring", "expensive"), "nom", Notes())[1] == "teure"


def test_finite_verbs(book: Book) -> None:
    see = book.verb("see").german
    forms = [present(see, person, plural) for plural in (False, True) for person in (1, 2, 3)]
    assert forms == ["sehe", "siehst", "sieht", "sehen", "sehen", "sehen"]
    know = book.verb("know").german
    assert [preterite(know, 2, False), preterite(know, 3, True)] == ["wusstest", "wussten"]


def test_prepositions_contract() -> None:
    assert contract("in", ["dem", "Garten"]) == ["im", "Garten"]
    assert contract("zu", ["der", "Schule"]) == ["zur", "Schule"]
    assert contract("auf", ["dem", "Dach"]) == ["auf", "dem", "Dach"]


def test_separable_verbs_leave_their_prefix_at_the_end(book: Book) -> None:
    clause = book.do(ER, "get up", time=Time(TimeKind.CLOCK, 7, 2))
    assert book.say(clause)["de"] == "Er steht um halb acht auf."
    assert book.say(book.do(ER, "get up", tense=Tense.PAST))["de"] == "Er ist aufgestanden."
    report = book.do(ICH, "know", content=Subordinate(Link.THAT, book.do(ER, "get up")))
    assert book.say(report)["de"] == "Ich weiß, dass er aufsteht."


def test_the_verb_stands_second(book: Book) -> None:
    yesterday = Time(adverb=book.adverb("yesterday"))
    clause = book.do(ER, "see", book.the("dog"), tense=Tense.PAST, time=yesterday)
    sentence = Sentence(clause, front=Front.TIME)
    assert book.say(sentence)["de"] == "Gestern hat er den Hund gesehen."


def test_a_reflexive_precedes_a_noun(book: Book) -> None:
    yesterday = Time(adverb=book.adverb("yesterday"))
    clause = book.do(book.the("man"), "shave", tense=Tense.PAST, time=yesterday)
    sentence = Sentence(clause, front=Front.TIME)
    assert book.say(sentence)["de"] == "Gestern hat sich der Mann rasiert."


@pytest.mark.parametrize(
    ("polarity", "determiner", "expected"),
    [
        (Polarity.NOT, Determiner.DEFINITE, "Ich sehe den Hund nicht."),
        (Polarity.NOT, Determiner.INDEFINITE, "Ich sehe keinen Hund."),
        (Polarity.NEVER, Determiner.DEFINITE, "Ich sehe den Hund nie."),
        (Polarity.NO_LONGER, Determiner.DEFINITE, "Ich sehe den Hund nicht mehr."),
    ],
)
def test_negation(book: Book, polarity: Polarity, determiner: Determiner, expected: str) -> None:
    clause = book.do(ICH, "see", book.the("dog", determiner=determiner), polarity=polarity)
    assert book.say(clause)["de"] == expected


def test_negation_behind_a_preposition_is_nicht(book: Book) -> None:
    door = book.the("door", determiner=Determiner.INDEFINITE)
    clause = book.do(ICH, "knock on", door, polarity=Polarity.NOT)
    assert book.say(clause)["de"] == "Ich klopfe nicht an eine Tür."


def test_negated_something_is_nichts(book: Book) -> None:
    clause = book.do(ICH, "see", Indefinite.SOMETHING, polarity=Polarity.NOT)
    assert book.say(clause)["de"] == "Ich sehe nichts."


def test_negation_draws_the_time_behind_the_object(book: Book) -> None:
    today = Time(adverb=book.adverb("today"))
    clause = book.do(ICH, "read", book.the("book"), polarity=Polarity.NOT, time=today)
    assert book.say(clause)["de"] == "Ich lese das Buch heute nicht."


def test_modals_send_the_infinitive_to_the_end(book: Book) -> None:
    clause = book.do(ICH, "buy", book.the("bread"), modal=Modal.MUST, tense=Tense.PAST)
    assert book.say(clause)["de"] == "Ich musste das Brot kaufen."


def test_pronouns_and_dative(book: Book) -> None:
    clause = book.do(SIE, "give", book.the("ball"), recipient=ER)
    assert book.say(clause)["de"] == "Sie gibt ihm den Ball."
    children = book.the("child", plural=True)
    clause = book.do(SIE, "help", children, tense=Tense.PAST)
    assert book.say(clause)["de"] == "Sie hat den Kindern geholfen."


def test_subordinate_clauses_end_in_their_verb(book: Book) -> None:
    tired = Clause(ER, Quality(book.adjective("tired")), Tense.PAST)
    work = book.do(ER, "work", tense=Tense.PAST)
    after = Sentence(work, subordinate=Subordinate(Link.ALTHOUGH, tired))
    before = Sentence(work, front=Front.SUBORDINATE, subordinate=Subordinate(Link.ALTHOUGH, tired))
    assert book.say(after)["de"] == "Er hat gearbeitet, obwohl er müde war."
    assert book.say(before)["de"] == "Obwohl er müde war, hat er gearbeitet."


def test_relative_clauses(book: Book) -> None:
    man = book.the("man")
    helped = book.do(ICH, "help", Gap(man, True), tense=Tense.PAST)
    thing = book.the("man", relative=Relative(helped, Role.DIRECT))
    assert book.say(book.do(thing, "sleep"))["de"] == "Der Mann, dem ich geholfen habe, schläft."
    seen = book.do(ICH, "see", thing, tense=Tense.PAST)
    assert book.say(seen)["de"] == "Ich habe den Mann gesehen, dem ich geholfen habe."


def test_questions_and_orders(book: Book) -> None:
    question = Sentence(book.do(DU, "see", book.the("dog")), Mood.QUESTION)
    assert book.say(question)["de"] == "Siehst du den Hund?"
    asked = Sentence(book.do(DU, "go", tense=Tense.FUTURE), Mood.QUESTION, Asked.WHERE)
    assert book.say(asked)["de"] == "Wohin wirst du gehen?"
    order = Sentence(book.do(DU, "turn on", book.the("lamp")), Mood.IMPERATIVE)
    assert book.say(order)["de"] == "Schalte die Lampe ein!"


def test_comparison_and_profession(book: Book) -> None:
    quality = Quality(book.adjective("big"), Degree.MORE_THAN, than=book.the("cat"))
    assert book.say(Clause(book.the("dog"), quality))["de"] == "Der Hund ist größer als die Katze."
    assert book.say(Clause(ER, Identity(book.noun("doctor"))))["de"] == "Er ist Arzt."


def test_it_takes_the_gender_of_what_it_means(book: Book) -> None:
    for noun, pronoun in (("lamp", "sie"), ("table", "er"), ("book", "es")):
        clause = Clause(Anaphor(book.the(noun)), Quality(book.adjective("old")))
        assert german.realise(Sentence(clause)).text == f"{pronoun.title()} ist alt."


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (Time(TimeKind.CLOCK, 7, 0), "um sieben Uhr"),
        (Time(TimeKind.CLOCK, 1, 0), "um ein Uhr"),
        (Time(TimeKind.CLOCK, 1, 1), "um Viertel nach eins"),
        (Time(TimeKind.CLOCK, 7, 3), "um Viertel vor acht"),
        (Time(TimeKind.DATE, 3, 4), "am dritten Mai"),
        (Time(TimeKind.DATE, 21, 11), "am einundzwanzigsten Dezember"),
        (Time(TimeKind.AGO, 2, 5), "vor zwei Jahren"),
        (Time(TimeKind.AGO, 1, 3), "vor einer Woche"),
        (Time(TimeKind.DURATION, 2, 1), "zwei Stunden lang"),
        (Time(TimeKind.LAST, 5), "letztes Jahr"),
        (Time(TimeKind.HABIT, 0), "montags"),
    ],
)
def test_times(time: Time, expected: str) -> None:
    assert times.german(time) == expected
