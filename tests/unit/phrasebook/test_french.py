import pytest

from data_prep.phrasebook import meaning as m
from data_prep.phrasebook.french_forms import elide
from data_prep.phrasebook.french_phrases import noun_head
from data_prep.phrasebook.text import Notes
from tests.unit.phrasebook.conftest import Book

JE, TU = m.Pronoun(1, False), m.Pronoun(2, False)
IL, ELLE = m.Pronoun(3, False, "m"), m.Pronoun(3, False, "f")
ILS = m.Pronoun(3, True)


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


@pytest.mark.parametrize(
    ("noun", "adjective", "kind", "plural", "expected"),
    [
        ("tree", "beautiful", m.Determiner.DEFINITE, False, "le bel arbre"),
        ("house", "old", m.Determiner.INDEFINITE, False, "une vieille maison"),
        ("house", "red", m.Determiner.DEFINITE, True, "les maisons rouges"),
        ("apple", "beautiful", m.Determiner.BARE, True, "de belles pommes"),
        ("tree", "old", m.Determiner.THIS, False, "ce vieil arbre"),
    ],
)
def test_adjectives_agree_and_stand_on_their_side(
    book: Book, noun: str, adjective: str, kind: m.Determiner, plural: bool, expected: str
) -> None:
    thing = book.the(noun, adjective, determiner=kind, plural=plural)
    assert " ".join(noun_head(thing, Notes())) == expected


def test_object_pronouns_stand_before_their_verb(book: Book) -> None:
    assert book.fr(book.do(JE, "see", IL)) == "Je le vois."
    assert book.fr(book.do(JE, "see", IL, modal=m.Modal.WANT)) == "Je veux le voir."
    given = book.do(JE, "give", book.the("ball"), recipient=IL, polarity=m.Polarity.NOT)
    assert book.fr(given) == "Je ne lui donne pas le ballon."
    seen = book.do(IL, "see", ELLE, tense=m.Tense.PAST, polarity=m.Polarity.NOT)
    assert book.fr(seen) == "Il ne l'a pas vue."


def test_participles_agree(book: Book) -> None:
    gone = book.do(ELLE, "go", tense=m.Tense.PAST, goal=book.at("market", direction=True))
    assert book.fr(gone) == "Elle est allée au marché."
    assert book.fr(book.do(ILS, "get up", tense=m.Tense.PAST)) == "Ils se sont levés."
    letter = book.the("letter")
    clause = book.do(JE, "write", m.Gap(letter), tense=m.Tense.PAST)
    thing = book.the("letter", relative=m.Relative(clause, m.Role.DIRECT))
    assert book.fr(book.do(TU, "read", thing)) == "Tu lis la lettre que j'ai écrite."


def test_negation_takes_de(book: Book) -> None:
    coffee = book.the("coffee", determiner=m.Determiner.BARE)
    assert book.fr(book.do(JE, "drink", coffee)) == "Je bois du café."
    clause = book.do(JE, "drink", coffee, polarity=m.Polarity.NOT)
    assert book.fr(clause) == "Je ne bois pas de café."
    past = {"polarity": m.Polarity.NOT, "tense": m.Tense.PAST}
    assert book.fr(book.do(JE, "see", m.Indefinite.SOMETHING, **past)) == "Je n'ai rien vu."
    assert book.fr(book.do(m.Indefinite.NOBODY, "sleep")) == "Personne ne dort."


def test_subordinate_and_relative_clauses(book: Book) -> None:
    tired = m.Clause(IL, m.Quality(book.adjective("tired")), m.Tense.PAST)
    work = book.do(IL, "work", tense=m.Tense.PAST)
    sentence = m.Sentence(work, subordinate=m.Subordinate(m.Link.ALTHOUGH, tired))
    assert book.fr(sentence) == "Il a travaillé bien qu'il soit fatigué."
    dreamed = book.do(JE, "look after", m.Gap(book.the("man"), True))
    thing = book.the("man", relative=m.Relative(dreamed, m.Role.DIRECT))
    assert book.fr(book.do(thing, "sleep")) == "L'homme dont je m'occupe dort."


def test_orders(book: Book) -> None:
    def order(clause: m.Clause, please: bool = False) -> str:
        return book.fr(m.Sentence(clause, m.Mood.IMPERATIVE, please=please))

    given = book.do(TU, "give", book.the("ball"), recipient=JE)
    assert order(given) == "Donne-moi le ballon !"
    assert order(book.do(TU, "get up")) == "Lève-toi !"
    stay = book.do(TU, "get up", polarity=m.Polarity.NOT)
    assert order(stay, please=True) == "Ne te lève pas, s'il te plaît !"


def test_questions(book: Book) -> None:
    polar = m.Sentence(book.do(IL, "sleep"), m.Mood.QUESTION)
    assert book.fr(polar) == "Est-ce qu'il dort ?"
    key = book.the("key", determiner=m.Determiner.POSSESSIVE, owner=JE)
    where = m.Sentence(m.Clause(key, m.Whereabouts()), m.Mood.QUESTION, m.Asked.WHERE)
    assert book.fr(where) == "Où est ma clé ?"
    what = m.Sentence(book.do(TU, "eat", m.Gap()), m.Mood.QUESTION, m.Asked.WHAT)
    assert book.fr(what) == "Qu'est-ce que tu manges ?"


def test_it_takes_the_gender_of_what_it_means(book: Book) -> None:
    for noun, expected in (("lamp", "Elle est vieille."), ("book", "Il est vieux.")):
        clause = m.Clause(m.Anaphor(book.the(noun)), m.Quality(book.adjective("old")))
        assert book.fr(clause) == expected


def test_existence_and_comparison(book: Book) -> None:
    dog = book.the("dog", determiner=m.Determiner.INDEFINITE)
    clause = m.Clause(
        m.Indefinite.IT, m.Existence(dog), m.Tense.PAST, m.Polarity.NOT, place=book.at("garden")
    )
    assert book.fr(clause) == "Il n'y avait pas de chien dans le jardin."
    quality = m.Quality(book.adjective("big"), m.Degree.MORE_THAN, than=book.the("dog"))
    bigger = m.Clause(book.the("cow"), quality)
    assert book.fr(bigger) == "La vache est plus grande que le chien."
