"""English noun phrases, places and times."""

from data_prep.phrasebook import times
from data_prep.phrasebook.meaning import (
    Anaphor,
    Determiner,
    Entity,
    Indefinite,
    Location,
    Pronoun,
    Proper,
    Thing,
    Time,
)
from data_prep.phrasebook.text import Notes

AN_EXCEPTIONS = ("hour", "honest", "hon")
A_EXCEPTIONS = ("uni", "use", "usual", "euro", "one", "eu")
SUBJECTS = {(1, False): "I", (2, False): "you", (1, True): "we", (3, True): "they"}
OBJECTS = {(1, False): "me", (2, False): "you", (1, True): "us", (3, True): "them"}
POSSESSIVES = {(1, False): "my", (2, False): "your", (1, True): "our", (3, True): "their"}
INDEFINITES = {
    Indefinite.NOBODY: "nobody",
    Indefinite.SOMEBODY: "somebody",
    Indefinite.EVERYBODY: "everybody",
    Indefinite.SOMETHING: "something",
    Indefinite.IT: "it",
}
DETERMINERS = {
    Determiner.DEFINITE: "the",
    Determiner.EVERY: "every",
    Determiner.ALL: "all the",
    Determiner.SOME: "some",
    Determiner.WHICH: "which",
    Determiner.HOW_MANY: "how many",
}


def entity_words(
    entity: Entity, notes: Notes, subject: bool = False, negated: bool = False
) -> list[str]:
    """The words for a person or thing, as the subject or as an object."""
    match entity:
        case Thing():
            words = noun_phrase(entity, notes, negated)
        case Proper():
            words = [entity.name.text]
        case Indefinite.SOMETHING if negated:
            words = ["anything"]
        case Indefinite():
            words = [INDEFINITES[entity]]
        case Anaphor() if entity.thing.plural:
            words = ["they" if subject else "them"]
        case Anaphor():
            words = ["it"]
        case Pronoun():
            words = [_pronoun(entity, subject)]
        case _:
            words = []
    return words


def _pronoun(pronoun: Pronoun, subject: bool) -> str:
    if pronoun.person == 3 and not pronoun.plural:
        if pronoun.gender == "f":
            return "she" if subject else "her"
        return "he" if subject else "him"
    return (SUBJECTS if subject else OBJECTS)[pronoun.person, pronoun.plural]


def possessive(owner: Pronoun) -> str:
    """My, your, his …"""
    if owner.person == 3 and not owner.plural:
        return "her" if owner.gender == "f" else "his"
    return POSSESSIVES[owner.person, owner.plural]


def article(next_word: str) -> str:
    """*a* or *an*, by the sound that the next word begins with."""
    if next_word.startswith(AN_EXCEPTIONS):
        return "an"
    if next_word.startswith(A_EXCEPTIONS):
        return "a"
    return "an" if next_word[0] in "aeiou" else "a"


def noun_phrase(thing: Thing, notes: Notes, negated: bool = False) -> list[str]:
    """A noun with its determiner or possessor and adjectives, without its relative clause."""
    noun = thing.noun.english.plural if thing.plural else thing.noun.english.singular
    words = []
    for attribute in thing.attributes:
        if attribute.degree is not None:
            words.append(attribute.degree.english)
        words.append(attribute.adjective.english.positive)
    words.append(noun)
    words = [*_determiner(thing, words[0], negated), *words]
    if isinstance(thing.possessor, Proper):
        words = [f"{thing.possessor.name.text}'s", *words[1:]]
    elif thing.possessor is not None:
        words = [*_genitive(noun_phrase(thing.possessor, notes)), *words[1:]]
    return words


def _genitive(words: list[str]) -> list[str]:
    return [*words[:-1], words[-1] + ("'" if words[-1].endswith("s") else "'s")]


def _determiner(thing: Thing, next_word: str, negated: bool) -> list[str]:
    match thing.determiner:
        case Determiner.INDEFINITE:
            word = article(next_word)
        case Determiner.BARE:
            word = "any" if negated else ""
        case Determiner.THIS:
            word = "these" if thing.plural else "this"
        case Determiner.POSSESSIVE:
            assert thing.owner is not None
            word = possessive(thing.owner)
        case Determiner.NUMBER:
            word = times.english_number(thing.number)
        case Determiner.MANY:
            word = "many" if thing.plural else "a lot of"
        case _:
            word = DETERMINERS[thing.determiner]
    return [word] if word else []


def location_words(location: Location) -> list[str]:
    """*in the kitchen*, *to school*."""
    if location.adverb is not None:
        return [location.adverb.english]
    place = location.place
    assert place is not None
    phrase = place.english_to if location.direction else place.english_at
    return [phrase, place.noun.english.singular]


def time_words(time: Time) -> list[str]:
    """The words of a time expression."""
    if time.adverb is not None:
        return [time.adverb.english]
    return [times.english(time)]
