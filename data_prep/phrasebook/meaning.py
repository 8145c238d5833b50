"""Meanings of sentences, independent of a language.

A ``Sentence`` is a tree of clauses, noun phrases and circumstances. It contains lexicon entries and
grammatical categories (tense, polarity, number). Word order, inflection and spelling are in
``english``, ``german`` and ``french``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeGuard

from data_prep.phrasebook.entries import Adjective, Adverb, Name, Noun, Place, Verb


class Tense(Enum):
    """Tense and aspect."""

    PRESENT = auto()
    PROGRESSIVE = auto()
    PAST = auto()
    PERFECT = auto()
    """With *already*, or negated with *not yet* or *never*."""
    FUTURE = auto()


class Polarity(Enum):
    """Affirmation or negation."""

    POSITIVE = auto()
    NOT = auto()
    NEVER = auto()
    NOT_YET = auto()
    NO_LONGER = auto()


class Modal(Enum):
    """Modal verbs: ability, obligation, wish and permission."""

    CAN = auto()
    MUST = auto()
    WANT = auto()
    SHOULD = auto()
    MAY = auto()
    WOULD_LIKE = auto()


class Determiner(Enum):
    """Determiners of a noun."""

    DEFINITE = auto()
    INDEFINITE = auto()
    BARE = auto()
    """No determiner: *coffee*, *apples*."""
    THIS = auto()
    POSSESSIVE = auto()
    NUMBER = auto()
    EVERY = auto()
    ALL = auto()
    SOME = auto()
    MANY = auto()
    WHICH = auto()
    HOW_MANY = auto()


@dataclass(frozen=True)
class Pronoun:
    """A person: I, you, he …; ``gender`` (m, f) matters in the third person singular."""

    person: int
    plural: bool
    gender: str = "m"


@dataclass(frozen=True)
class Proper:
    """A person, referred to by name."""

    name: Name


class Indefinite(Enum):
    """Indefinite pronouns."""

    NOBODY = auto()
    SOMEBODY = auto()
    EVERYBODY = auto()
    SOMETHING = auto()
    IT = auto()
    """The subject of *it rains*."""


@dataclass(frozen=True)
class Attribute:
    """An attributive adjective, with an adverb of degree (*very*) or without."""

    adjective: Adjective
    degree: Adverb | None = None


@dataclass(frozen=True)
class Thing:
    """A noun phrase."""

    noun: Noun
    determiner: Determiner = Determiner.DEFINITE
    plural: bool = False
    attributes: tuple[Attribute, ...] = ()
    owner: Pronoun | None = None
    number: int = 0
    possessor: Thing | Proper | None = None
    """The owner, as in *the dog of the neighbour*."""
    relative: Relative | None = None


@dataclass(frozen=True)
class Anaphor:
    """*it* or *them*: the pronoun agrees with the noun that it refers to."""

    thing: Thing


class Role(Enum):
    """The function of a relative pronoun in its clause."""

    SUBJECT = auto()
    DIRECT = auto()


@dataclass(frozen=True)
class Gap:
    """The constituent that the pronoun at the front of a relative clause or question stands for."""

    thing: Thing | None = None
    """The antecedent, without its own relative clause; None in a question."""
    person: bool = False


Entity = Thing | Pronoun | Proper | Indefinite | Anaphor | Gap


@dataclass(frozen=True)
class Relative:
    """A relative clause; one entity in it is a ``Gap``."""

    clause: Clause
    role: Role


class TimeKind(Enum):
    """Kinds of time expressions; the values explain ``first`` and ``second`` of a ``Time``.

    Units are numbered from 0: minute, hour, day, week, month, year.
    """

    CLOCK = "at an hour (first), plus quarters (second, 0 to 3)"
    WEEKDAY = "on a weekday (first, Monday is 0)"
    HABIT = "on each weekday (first)"
    LAST = "last unit (first, 3 to 5)"
    NEXT = "next unit (first, 3 to 5)"
    EVERY = "every unit (first, 2 to 5)"
    AGO = "a number (first) of units (second) ago"
    WITHIN = "in a number (first) of units (second)"
    DURATION = "for a number (first) of units (second)"
    DATE = "on day first of month second (0 to 11)"
    MONTH = "in month first (0 to 11)"
    SEASON = "in season first (spring is 0)"
    DAYTIME = "in the morning, at noon, in the afternoon, in the evening, at night (first)"
    YEAR_NUMBER = "in the year first"


@dataclass(frozen=True)
class Time:
    """A time expression: an adverb, or a kind with one or two numbers."""

    kind: TimeKind | None = None
    first: int = 0
    second: int = 0
    adverb: Adverb | None = None


@dataclass(frozen=True)
class Location:
    """A location, or a destination (``direction``): a place, or an adverb such as *here*."""

    place: Place | None = None
    direction: bool = False
    adverb: Adverb | None = None


@dataclass(frozen=True)
class Action:
    """A verb with its objects and its manner."""

    verb: Verb
    direct: Entity | None = None
    """The object, in the case that a language requires; of a ditransitive verb, what is given."""
    recipient: Entity | None = None
    manner: Adverb | None = None
    goal: Location | None = None
    companion: Entity | None = None
    content: Subordinate | None = None


class Degree(Enum):
    """Degrees of an adjective."""

    PLAIN = auto()
    TOO = auto()
    MORE_THAN = auto()
    AS_AS = auto()


@dataclass(frozen=True)
class Quality:
    """A predicative adjective, possibly in a comparison."""

    adjective: Adjective
    degree: Degree = Degree.PLAIN
    adverb: Adverb | None = None
    than: Entity | None = None


@dataclass(frozen=True)
class Identity:
    """A profession as the predicate: *she is a doctor*."""

    noun: Noun


@dataclass(frozen=True)
class Whereabouts:
    """Being at the location of the clause: *she is in the kitchen*."""


@dataclass(frozen=True)
class Existence:
    """*There is* with a noun phrase."""

    thing: Thing


Predicate = Action | Quality | Identity | Whereabouts | Existence


@dataclass(frozen=True)
class Clause:
    """A clause: a subject and a predicate, with time and location."""

    subject: Entity
    predicate: Predicate
    tense: Tense = Tense.PRESENT
    polarity: Polarity = Polarity.POSITIVE
    modal: Modal | None = None
    time: Time | None = None
    frequency: Adverb | None = None
    place: Location | None = None


class Link(Enum):
    """Conjunctions."""

    BECAUSE = auto()
    ALTHOUGH = auto()
    THAT = auto()
    WHETHER = auto()
    IF = auto()
    WHEN = auto()
    """Of a single event in the past: als, quand."""
    WHILE = auto()
    AND = auto()
    BUT = auto()


@dataclass(frozen=True)
class Subordinate:
    """A clause with the conjunction that joins it to another one."""

    link: Link
    clause: Clause


class Mood(Enum):
    """Kinds of sentences."""

    STATEMENT = auto()
    QUESTION = auto()
    IMPERATIVE = auto()


class Asked(Enum):
    """What a question asks for; WHETHER is a yes/no question."""

    WHETHER = auto()
    WHERE = auto()
    WHEN = auto()
    WHY = auto()
    HOW = auto()
    WHO = auto()
    WHAT = auto()
    WHOM = auto()


class Front(Enum):
    """The first constituent of a statement."""

    SUBJECT = auto()
    TIME = auto()
    PLACE = auto()
    SUBORDINATE = auto()


@dataclass(frozen=True)
class Sentence:
    """A main clause, and clauses joined to it."""

    clause: Clause
    mood: Mood = Mood.STATEMENT
    asked: Asked = Asked.WHETHER
    front: Front = Front.SUBJECT
    subordinate: Subordinate | None = None
    coordinate: Subordinate | None = None
    please: bool = False
    opening: Adverb | None = None
    """A sentence adverb, such as *unfortunately*."""


def agreement(subject: Entity) -> tuple[int, bool]:
    """The person and the number (plural or not) that a verb takes from its subject."""
    if isinstance(subject, Pronoun):
        return subject.person, subject.plural
    if isinstance(subject, Thing):
        return 3, subject.plural
    if isinstance(subject, (Anaphor, Gap)) and subject.thing is not None:
        return 3, subject.thing.plural
    return 3, False


def is_asked(entity: Entity | None) -> TypeGuard[Thing]:
    """Whether a question asks for this noun phrase: *which book*, *how many books*."""
    asking = (Determiner.WHICH, Determiner.HOW_MANY)
    return isinstance(entity, Thing) and entity.determiner in asking


@dataclass(frozen=True)
class Realisation:
    """A sentence in one language, and the phenomena that it shows.

    ``shown`` pairs a phenomenon with words of every correct translation into this language, or
    with the empty string if no words are required.
    """

    text: str
    shown: tuple[tuple[str, str], ...] = field(default=())
