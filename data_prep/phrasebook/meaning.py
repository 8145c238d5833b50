"""Meanings of sentences, independent of a language.

A ``Sentence`` is a tree of clauses, things and circumstances. It contains lexicon entries
and grammatical meaning (participants, tense, polarity), but no word order, inflection or spelling,
which are in ``english``, ``german`` and ``french``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from data_prep.phrasebook.entries import Adjective, Adverb, Name, Noun, Place, Verb


class Tense(Enum):
    """When, and how it is looked at."""

    PRESENT = auto()
    PROGRESSIVE = auto()
    PAST = auto()
    PERFECT = auto()
    """Completed, with *already*; without it only with a polarity such as NOT_YET."""
    FUTURE = auto()


class Polarity(Enum):
    """Whether it is so."""

    POSITIVE = auto()
    NOT = auto()
    NEVER = auto()
    NOT_YET = auto()
    NO_LONGER = auto()


class Modal(Enum):
    """Ability, duty, wish and permission."""

    CAN = auto()
    MUST = auto()
    WANT = auto()
    SHOULD = auto()
    MAY = auto()
    WOULD_LIKE = auto()


class Determiner(Enum):
    """How a thing is picked out."""

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
    """A person called by name."""

    name: Name


class Indefinite(Enum):
    """Indefinite persons and things."""

    NOBODY = auto()
    SOMEBODY = auto()
    EVERYBODY = auto()
    SOMETHING = auto()
    NOTHING = auto()
    EVERYTHING = auto()
    IT = auto()
    """The weather's empty subject."""


@dataclass(frozen=True)
class Attribute:
    """An adjective before or after its noun, perhaps with a degree (*very*)."""

    adjective: Adjective
    degree: Adverb | None = None


@dataclass(frozen=True)
class Thing:
    """A noun with all that belongs to it."""

    noun: Noun
    determiner: Determiner = Determiner.DEFINITE
    plural: bool = False
    attributes: tuple[Attribute, ...] = ()
    owner: Pronoun | None = None
    number: int = 0
    possessor: Thing | Proper | None = None
    """Whose it is: *the dog of the neighbour*."""
    relative: Relative | None = None


@dataclass(frozen=True)
class Anaphor:
    """*it* or *them*: takes number from the thing meant, and gender from its noun."""

    thing: Thing


class Role(Enum):
    """What the relative pronoun, or the question word, is in its own clause."""

    SUBJECT = auto()
    DIRECT = auto()
    RECIPIENT = auto()


@dataclass(frozen=True)
class Gap:
    """The position in a relative clause or a question from which a word was moved."""

    thing: Thing | None = None
    """The antecedent, without its own relative clause; None in a question."""
    person: bool = False


Entity = Thing | Pronoun | Proper | Indefinite | Anaphor | Gap


@dataclass(frozen=True)
class Relative:
    """A relative clause; one entity in it is a ``Gap``."""

    clause: Clause
    role: Role


class Unit(Enum):
    """Units of time."""

    MINUTE = 0
    HOUR = 1
    DAY = 2
    WEEK = 3
    MONTH = 4
    YEAR = 5


class TimeKind(Enum):
    """Ways to say when, besides adverbs. ``first`` and ``second`` are explained by the value."""

    CLOCK = "at an hour (first), plus quarters (second, 0 to 3)"
    WEEKDAY = "on a weekday (first, Monday is 0)"
    HABIT = "on each weekday (first)"
    LAST = "last unit or weekday: first is a Unit value (3 to 5)"
    NEXT = "next unit"
    EVERY = "every unit"
    AGO = "first units ago; second is the Unit value"
    WITHIN = "in first units"
    DURATION = "for first units"
    DATE = "on day first of month second (0 to 11)"
    MONTH = "in month first (0 to 11)"
    SEASON = "in season first (spring is 0)"
    DAYTIME = "in the morning, at noon, in the afternoon, in the evening, at night (first)"
    YEAR_NUMBER = "in the year first"


@dataclass(frozen=True)
class Time:
    """When it happens: an adverb, or a phrase built by the language."""

    kind: TimeKind | None = None
    first: int = 0
    second: int = 0
    adverb: Adverb | None = None


@dataclass(frozen=True)
class Location:
    """At a place (``direction`` False) or to it; an adverb such as *here* needs no place."""

    place: Place | None = None
    direction: bool = False
    owner: Pronoun | None = None
    adverb: Adverb | None = None


@dataclass(frozen=True)
class Action:
    """A verb with its objects."""

    verb: Verb
    direct: Entity | None = None
    """The one object, however each language governs it; of a ditransitive verb, the thing."""
    recipient: Entity | None = None
    manner: Adverb | None = None
    goal: Location | None = None
    companion: Entity | None = None
    content: Subordinate | None = None


class Degree(Enum):
    """How much of a quality."""

    PLAIN = auto()
    TOO = auto()
    MORE_THAN = auto()
    AS_AS = auto()


@dataclass(frozen=True)
class Quality:
    """To have a property, possibly in comparison."""

    adjective: Adjective
    degree: Degree = Degree.PLAIN
    adverb: Adverb | None = None
    than: Entity | None = None


@dataclass(frozen=True)
class Identity:
    """To have a profession."""

    noun: Noun


@dataclass(frozen=True)
class Whereabouts:
    """To be somewhere; the location belongs to the clause."""


@dataclass(frozen=True)
class Existence:
    """There is something."""

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
    """What joins two clauses."""

    BECAUSE = auto()
    ALTHOUGH = auto()
    THAT = auto()
    WHETHER = auto()
    IF = auto()
    WHEN = auto()
    """Once, in the past: als, quand."""
    WHILE = auto()
    AND = auto()
    BUT = auto()


@dataclass(frozen=True)
class Subordinate:
    """A clause that depends on another one."""

    link: Link
    clause: Clause


class Mood(Enum):
    """What the speaker does."""

    STATEMENT = auto()
    QUESTION = auto()
    IMPERATIVE = auto()


class Asked(Enum):
    """The questioned constituent."""

    WHETHER = auto()
    WHERE = auto()
    WHEN = auto()
    WHY = auto()
    HOW = auto()
    WHO = auto()
    WHAT = auto()
    WHOM = auto()


class Front(Enum):
    """What a statement begins with."""

    SUBJECT = auto()
    TIME = auto()
    PLACE = auto()
    SUBORDINATE = auto()


@dataclass(frozen=True)
class Sentence:
    """A main clause, and what is joined to it."""

    clause: Clause
    mood: Mood = Mood.STATEMENT
    asked: Asked = Asked.WHETHER
    front: Front = Front.SUBJECT
    subordinate: Subordinate | None = None
    coordinate: Subordinate | None = None
    please: bool = False
    opening: Adverb | None = None
    """What the speaker thinks of it: *unfortunately*."""


def agreement(subject: Entity) -> tuple[int, bool]:
    """The person and the number (plural or not) that a verb takes from its subject."""
    if isinstance(subject, Pronoun):
        return subject.person, subject.plural
    if isinstance(subject, Thing):
        return 3, subject.plural
    if isinstance(subject, (Anaphor, Gap)) and subject.thing is not None:
        return 3, subject.thing.plural
    return 3, False


@dataclass(frozen=True)
class Realisation:
    """A sentence in one language, and the grammar that it shows.

    ``shown`` pairs a phenomenon with words of every correct translation into this language, or
    with the empty string if no words are required.
    """

    text: str
    shown: tuple[tuple[str, str], ...] = field(default=())
