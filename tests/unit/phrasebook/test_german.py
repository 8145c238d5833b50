import pytest

from data_prep.phrasebook import german
from data_prep.phrasebook import meaning as m
from data_prep.phrasebook.german_phrases import noun_head
from data_prep.phrasebook.text import Notes
from tests.unit.phrasebook.conftest import Book

ICH, DU = m.Pronoun(1, False), m.Pronoun(2, False)
ER, SIE = m.Pronoun(3, False, "m"), m.Pronoun(3, False, "f")


@pytest.mark.parametrize(
    ("noun", "case", "kind", "plural", "expected"),
    [
        ("dog", "nom", m.Determiner.DEFINITE, False, "der alte Hund"),
        ("dog", "acc", m.Determiner.DEFINITE, False, "den alten Hund"),
        ("dog", "dat", m.Determiner.DEFINITE, False, "dem alten Hund"),
        ("cat", "dat", m.Determiner.DEFINITE, False, "der alten Katze"),
        ("dog", "nom", m.Determiner.INDEFINITE, False, "ein alter Hund"),
        ("horse", "acc", m.Determiner.INDEFINITE, False, "ein altes Pferd"),
        ("horse", "dat", m.Determiner.INDEFINITE, False, "einem alten Pferd"),
        ("dog", "nom", m.Determiner.BARE, True, "alte Hunde"),
        ("dog", "dat", m.Determiner.BARE, True, "alten Hunden"),
        ("dog", "acc", m.Determiner.THIS, True, "diese alten Hunde"),
        ("dog", "nom", m.Determiner.MANY, True, "viele alte Hunde"),
        ("dog", "dat", m.Determiner.ALL, True, "allen alten Hunden"),
        ("boy", "acc", m.Determiner.DEFINITE, False, "den alten Jungen"),
        ("neighbour", "dat", m.Determiner.INDEFINITE, False, "einem alten Nachbarn"),
    ],
)
def test_noun_phrases_agree_in_case_gender_and_number(
    book: Book, noun: str, case: str, kind: m.Determiner, plural: bool, expected: str
) -> None:
    thing = book.the(noun, "old", determiner=kind, plural=plural)
    assert " ".join(noun_head(thing, case, Notes())) == expected


@pytest.mark.parametrize(
    ("polarity", "determiner", "expected"),
    [
        (m.Polarity.NOT, m.Determiner.DEFINITE, "Ich sehe den Hund nicht."),
        (m.Polarity.NOT, m.Determiner.INDEFINITE, "Ich sehe keinen Hund."),
        (m.Polarity.NEVER, m.Determiner.DEFINITE, "Ich sehe den Hund nie."),
        (m.Polarity.NO_LONGER, m.Determiner.DEFINITE, "Ich sehe den Hund nicht mehr."),
    ],
)
def test_negation(
    book: Book, polarity: m.Polarity, determiner: m.Determiner, expected: str
) -> None:
    clause = book.do(ICH, "see", book.the("dog", determiner=determiner), polarity=polarity)
    assert book.de(clause) == expected


def test_negation_of_other_objects(book: Book) -> None:
    def negated(verb: str, direct: m.Entity, **more: object) -> str:
        return book.de(book.do(ICH, verb, direct, polarity=m.Polarity.NOT, **more))

    car = book.the("car", "new", "expensive", determiner=m.Determiner.INDEFINITE)
    assert negated("see", car) == "Ich sehe kein neues teures Auto."
    door = book.the("door", determiner=m.Determiner.INDEFINITE)
    assert negated("knock on", door) == "Ich klopfe nicht an eine Tür."
    assert negated("see", m.Indefinite.SOMETHING) == "Ich sehe nichts."
    today = m.Time(adverb=book.adverb("today"))
    read = negated("read", book.the("book"), time=today)
    assert read == "Ich lese das Buch heute nicht."


def test_the_verb_is_second(book: Book) -> None:
    past = {"tense": m.Tense.PAST, "time": m.Time(adverb=book.adverb("yesterday"))}
    seen = m.Sentence(book.do(ER, "see", book.the("dog"), **past), front=m.Front.TIME)
    assert book.de(seen) == "Gestern hat er den Hund gesehen."
    shaved = m.Sentence(book.do(book.the("man"), "shave", **past), front=m.Front.TIME)
    assert book.de(shaved) == "Gestern hat sich der Mann rasiert."


def test_separable_verbs_leave_their_prefix_at_the_end(book: Book) -> None:
    clause = book.do(ER, "get up", time=m.Time(m.TimeKind.CLOCK, 7, 2))
    assert book.de(clause) == "Er steht um halb acht auf."
    assert book.de(book.do(ER, "get up", tense=m.Tense.PAST)) == "Er ist aufgestanden."
    report = book.do(ICH, "know", content=m.Subordinate(m.Link.THAT, book.do(ER, "get up")))
    assert book.de(report) == "Ich weiß, dass er aufsteht."


def test_modals_send_the_infinitive_to_the_end(book: Book) -> None:
    clause = book.do(ICH, "buy", book.the("bread"), modal=m.Modal.MUST, tense=m.Tense.PAST)
    assert book.de(clause) == "Ich musste das Brot kaufen."


def test_pronouns_and_dative(book: Book) -> None:
    clause = book.do(SIE, "give", book.the("ball"), recipient=ER)
    assert book.de(clause) == "Sie gibt ihm den Ball."
    children = book.the("child", plural=True)
    clause = book.do(SIE, "help", children, tense=m.Tense.PAST)
    assert book.de(clause) == "Sie hat den Kindern geholfen."


def test_subordinate_clauses_end_in_their_verb(book: Book) -> None:
    tired = m.Clause(ER, m.Quality(book.adjective("tired")), m.Tense.PAST)
    work = book.do(ER, "work", tense=m.Tense.PAST)
    after = m.Sentence(work, subordinate=m.Subordinate(m.Link.ALTHOUGH, tired))
    before = m.Sentence(
        work, front=m.Front.SUBORDINATE, subordinate=m.Subordinate(m.Link.ALTHOUGH, tired)
    )
    assert book.de(after) == "Er hat gearbeitet, obwohl er müde war."
    assert book.de(before) == "Obwohl er müde war, hat er gearbeitet."


def test_relative_clauses(book: Book) -> None:
    man = book.the("man")
    helped = book.do(ICH, "help", m.Gap(man, True), tense=m.Tense.PAST)
    thing = book.the("man", relative=m.Relative(helped, m.Role.DIRECT))
    assert book.de(book.do(thing, "sleep")) == "Der Mann, dem ich geholfen habe, schläft."
    seen = book.do(ICH, "see", thing, tense=m.Tense.PAST)
    assert book.de(seen) == "Ich habe den Mann gesehen, dem ich geholfen habe."


def test_questions_and_orders(book: Book) -> None:
    question = m.Sentence(book.do(DU, "see", book.the("dog")), m.Mood.QUESTION)
    assert book.de(question) == "Siehst du den Hund?"
    asked = m.Sentence(book.do(DU, "go", tense=m.Tense.FUTURE), m.Mood.QUESTION, m.Asked.WHERE)
    assert book.de(asked) == "Wohin wirst du gehen?"
    order = m.Sentence(book.do(DU, "turn on", book.the("lamp")), m.Mood.IMPERATIVE)
    assert book.de(order) == "Schalte die Lampe ein!"


def test_comparison_and_profession(book: Book) -> None:
    quality = m.Quality(book.adjective("big"), m.Degree.MORE_THAN, than=book.the("cat"))
    assert book.de(m.Clause(book.the("dog"), quality)) == "Der Hund ist größer als die Katze."
    assert book.de(m.Clause(ER, m.Identity(book.noun("doctor")))) == "Er ist Arzt."


def test_it_takes_the_gender_of_what_it_means(book: Book) -> None:
    for noun, pronoun in (("lamp", "sie"), ("table", "er"), ("book", "es")):
        clause = m.Clause(m.Anaphor(book.the(noun)), m.Quality(book.adjective("old")))
        assert german.realise(m.Sentence(clause)).text == f"{pronoun.title()} ist alt."
