"""Phenomena of a meaning that do not depend on the language."""

from collections.abc import Iterator

from data_prep.phrasebook.meaning import (
    Action,
    Asked,
    Clause,
    Determiner,
    Entity,
    Existence,
    Front,
    Indefinite,
    Mood,
    Quality,
    Sentence,
    Thing,
    TimeKind,
    is_asked,
)

NUMBERED = frozenset(
    {TimeKind.AGO, TimeKind.WITHIN, TimeKind.DURATION, TimeKind.DATE, TimeKind.YEAR_NUMBER}
)


def meaning_phenomena(sentence: Sentence) -> Iterator[str]:
    """Yield the names of the phenomena of a meaning, some of them twice."""
    if sentence.mood is Mood.IMPERATIVE:
        yield "imperative"
    elif sentence.mood is Mood.QUESTION:
        asks_thing = any(map(is_asked, _entities(sentence.clause)))
        wordless = sentence.asked is Asked.WHETHER and not asks_thing
        yield "question" if wordless else "word_question"
    if sentence.front in (Front.TIME, Front.PLACE, Front.SUBORDINATE):
        yield "fronting"
    if sentence.coordinate is not None:
        yield "coordination"
        yield from _clause(sentence.coordinate.clause)
    if sentence.subordinate is not None:
        yield from _clause(sentence.subordinate.clause)
    yield from _clause(sentence.clause)


def _clause(clause: Clause) -> Iterator[str]:
    if clause.time is not None:
        yield "clock_time" if clause.time.kind is TimeKind.CLOCK else "time"
        if clause.time.kind in NUMBERED:
            yield "number"
    if isinstance(clause.predicate, Existence):
        yield "existence"
    for entity in _entities(clause):
        yield from _entity(entity)
    if isinstance(clause.predicate, Action) and clause.predicate.content is not None:
        yield from _clause(clause.predicate.content.clause)


def _entities(clause: Clause) -> Iterator[Entity]:
    predicate = clause.predicate
    candidates: list[Entity | None] = [clause.subject]
    if isinstance(predicate, Action):
        candidates += [predicate.direct, predicate.recipient, predicate.companion]
    elif isinstance(predicate, Existence):
        candidates = [predicate.thing]
    elif isinstance(predicate, Quality):
        candidates.append(predicate.than)
    yield from (entity for entity in candidates if entity is not None)


def _entity(entity: Entity) -> Iterator[str]:
    if isinstance(entity, Indefinite) and entity is not Indefinite.IT:
        yield "indefinite_pronoun"
    if isinstance(entity, Thing):
        if entity.determiner is Determiner.POSSESSIVE:
            yield "possessive"
        if entity.determiner is Determiner.NUMBER:
            yield "number"
        if entity.possessor is not None:
            yield "genitive"
        if entity.relative is not None:
            yield from _clause(entity.relative.clause)
