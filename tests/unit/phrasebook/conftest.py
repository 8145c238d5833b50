import dataclasses

import pytest

from data_prep.phrasebook import english, french, german
from data_prep.phrasebook.entries import Adjective, Adverb, Lexicon, Noun, Place, Verb
from data_prep.phrasebook.lexicon import load_lexicon
from data_prep.phrasebook.meaning import (
    Action,
    Attribute,
    Clause,
    Determiner,
    Entity,
    Location,
    Sentence,
    Thing,
)


class Book:
    """Looks up words by their English key and realises sentences."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon

    def noun(self, key: str) -> Noun:
        return next(noun for noun in self.lexicon.nouns if noun.key == key)

    def verb(self, key: str) -> Verb:
        return next(verb for verb in self.lexicon.verbs if verb.key == key)

    def adjective(self, key: str) -> Adjective:
        return next(word for word in self.lexicon.adjectives if word.key == key)

    def adverb(self, key: str) -> Adverb:
        return next(word for word in self.lexicon.adverbs if word.english == key)

    def place(self, key: str) -> Place:
        return next(place for place in self.lexicon.places if place.noun.key == key)

    def at(self, key: str, direction: bool = False) -> Location:
        return Location(self.place(key), direction)

    def the(self, key: str, *adjectives: str, **changes: object) -> Thing:
        attributes = tuple(Attribute(self.adjective(word)) for word in adjectives)
        thing = Thing(self.noun(key), Determiner.DEFINITE, attributes=attributes)
        return dataclasses.replace(thing, **changes)

    def do(
        self, subject: Entity, verb: str, direct: Entity | None = None, **rest: object
    ) -> Clause:
        fields = {field.name for field in dataclasses.fields(Action)}
        own = {name: value for name, value in rest.items() if name in fields}
        outer = {name: value for name, value in rest.items() if name not in fields}
        return Clause(subject, Action(self.verb(verb), direct, **own), **outer)

    def en(self, meaning: Sentence | Clause) -> str:
        return english.realise(sentence_of(meaning)).text

    def de(self, meaning: Sentence | Clause) -> str:
        return german.realise(sentence_of(meaning)).text

    def fr(self, meaning: Sentence | Clause) -> str:
        return french.realise(sentence_of(meaning)).text


def sentence_of(meaning: Sentence | Clause) -> Sentence:
    return meaning if isinstance(meaning, Sentence) else Sentence(meaning)


@pytest.fixture(scope="session")
def book() -> Book:
    return Book(load_lexicon())
