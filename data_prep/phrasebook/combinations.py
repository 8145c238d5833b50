"""Combinations of two words in a sentence, some of which are held out from training."""

from collections.abc import Iterator

from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Clause,
    Entity,
    Existence,
    Gap,
    Proper,
    Quality,
    Sentence,
    Thing,
)

Combination = tuple[str, str, str]


def combinations(sentence: Sentence) -> Iterator[Combination]:
    """Yield every adjective with its noun, and every verb with its object."""
    yield from _clause(sentence.clause)
    for joined in (sentence.subordinate, sentence.coordinate):
        if joined is not None:
            yield from _clause(joined.clause)


def _clause(clause: Clause) -> Iterator[Combination]:
    """Yield the combinations of a clause and of all clauses and entities within it."""
    yield from _entity(clause.subject)
    predicate = clause.predicate
    if isinstance(predicate, Quality):
        noun = _noun(clause.subject)
        if noun:
            yield ("quality", predicate.adjective.key, noun)
        if predicate.than is not None:
            yield from _entity(predicate.than)
    elif isinstance(predicate, Existence):
        yield from _entity(predicate.thing)
    elif isinstance(predicate, Action):
        noun = "" if predicate.direct is None else _noun(predicate.direct)
        if noun:
            yield ("object", predicate.verb.key, noun)
        for entity in (predicate.direct, predicate.recipient, predicate.companion):
            if entity is not None:
                yield from _entity(entity)
        if predicate.content is not None:
            yield from _clause(predicate.content.clause)


def _noun(entity: Entity) -> str:
    if isinstance(entity, Thing):
        return entity.noun.key
    if isinstance(entity, (Anaphor, Gap)) and entity.thing is not None:
        return entity.thing.noun.key
    return ""


def _entity(entity: Entity) -> Iterator[Combination]:
    if not isinstance(entity, Thing):
        return
    for attribute in entity.attributes:
        yield ("quality", attribute.adjective.key, entity.noun.key)
    if entity.possessor is not None and not isinstance(entity.possessor, Proper):
        yield from _entity(entity.possessor)
    if entity.relative is not None:
        yield from _clause(entity.relative.clause)
