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
DESCRIPTIONS = {
    "adjective": "an adjective that agrees with its noun",
    "although_clause": "although, obwohl, bien que",
    "because_clause": "because, weil, parce que",
    "clock_time": "at half past seven, um halb acht, à sept heures et demie",
    "comparison": "bigger than, as big as",
    "coordination": "two main clauses joined by and or but",
    "dative": "the person who receives something",
    "elision": "French l', d', j', n', qu', s'",
    "existence": "there is, es gibt, il y a",
    "fronting": "a statement that begins with its time or place",
    "future": "will, werden, the simple future",
    "genitive": "an owner",
    "if_clause": "if, wenn, si",
    "imperative": "an order to one friend",
    "imperfect": "the French imparfait of states",
    "indefinite_pronoun": "nobody, something",
    "modal": "can, must, want to, should, be allowed to, would like to",
    "negation": "nicht, kein, nie; ne … pas, jamais, plus, rien",
    "number": "a number in words or figures",
    "object_pronoun": "a pronoun as the object, with its position and case",
    "participle_agreement": "a French participle that agrees",
    "past": "the English simple past",
    "perfect": "a participle with haben or sein, avoir or être",
    "perfect_with_be": "the perfect with sein or être",
    "plural": "a noun in the plural",
    "possessive": "my, your, his",
    "preterite": "the German preterite of states and modals",
    "progressive": "is doing, gerade, être en train de",
    "question": "does she …?",
    "reflexive_verb": "sich, se",
    "relative_clause": "who, der, qui, dont",
    "riddle": "what does it mean?",
    "separable_verb": "German steht … auf",
    "subjunctive": "the French subjunctive",
    "that_clause": "that, dass, que",
    "time": "when it happens",
    "verb_final": "the German verb at the end of its clause",
    "verb_second": "the German subject behind its verb",
    "when_clause": "when, als, quand",
    "whether_clause": "whether, ob, si",
    "while_clause": "while, während, pendant que",
    "word_question": "who, what, where, when, why, how",
}
"""Names of phenomena, with explanations."""


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
