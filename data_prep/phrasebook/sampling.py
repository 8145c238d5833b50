"""Sample plausible meanings: arguments of verbs, locations and times that fit."""

import dataclasses
import functools
import random
from collections.abc import Sequence
from typing import TypeVar

from data_prep.phrasebook.entries import Adjective, Adverb, Lexicon, Noun, Place, Verb
from data_prep.phrasebook.meaning import (
    Attribute,
    Determiner,
    Entity,
    Indefinite,
    Location,
    Polarity,
    Pronoun,
    Proper,
    Tense,
    Thing,
    Time,
    TimeKind,
)
from data_prep.phrasebook.sense import IN_NUMBERS, MOMENTARY, UNGRADED
from data_prep.phrasebook.words import split_words

T = TypeVar("T")

HUMAN = frozenset({"person", "adult"})
POSSESSABLE = frozenset(
    split_words(
        "portable clothing family pet device furniture drivable toy tool instrument document "
        "jewelry kitchenware house garden bag body"
    )
)
SCENIC = frozenset({"place", "nature", "weather", "sky", "building", "season", "event"})
"""Classes of nouns that are rarely in the plural."""
STRONG = frozenset({"very", "really", "extremely", "incredibly", "particularly"})
SINGLE = frozenset({"mother", "father", "husband", "wife"})
"""Relatives of whom a person has only one."""
SPEAKERS = (
    Pronoun(1, False),
    Pronoun(2, False),
    Pronoun(3, False, "m"),
    Pronoun(3, False, "f"),
    Pronoun(1, True),
    Pronoun(3, True),
)
OBJECT_PRONOUNS = (
    Pronoun(1, False),
    Pronoun(2, False),
    Pronoun(3, False, "m"),
    Pronoun(3, False, "f"),
    Pronoun(1, True),
)
NEGATABLE = (
    Determiner.DEFINITE,
    Determiner.INDEFINITE,
    Determiner.BARE,
    Determiner.POSSESSIVE,
    Determiner.THIS,
)
TIME_KINDS: dict[Tense, tuple[TimeKind, ...]] = {
    Tense.PAST: (
        TimeKind.CLOCK,
        TimeKind.CLOCK,
        TimeKind.WEEKDAY,
        TimeKind.LAST,
        TimeKind.AGO,
        TimeKind.AGO,
        TimeKind.DATE,
        TimeKind.MONTH,
        TimeKind.SEASON,
        TimeKind.YEAR_NUMBER,
    ),
    Tense.PRESENT: (
        TimeKind.HABIT,
        TimeKind.EVERY,
        TimeKind.DAYTIME,
        TimeKind.CLOCK,
        TimeKind.SEASON,
    ),
    Tense.FUTURE: (
        TimeKind.CLOCK,
        TimeKind.WEEKDAY,
        TimeKind.NEXT,
        TimeKind.WITHIN,
        TimeKind.DATE,
        TimeKind.MONTH,
    ),
}


class Sampler:
    """Samples words and phrases from the lexicon; the same seed gives the same samples."""

    def __init__(self, lexicon: Lexicon, foreign: str, rng: random.Random) -> None:
        """Index the lexicon; ``foreign`` is the language beside English, ``de`` or ``fr``."""
        self.lexicon, self.foreign, self.rng = lexicon, foreign, rng
        self.adverbs: dict[str, list[Adverb]] = {}
        for adverb in lexicon.adverbs:
            self.adverbs.setdefault(adverb.kind, []).append(adverb)

        indoors = frozenset({"room", "house", "hut", "tent", "garage", "cellar", "office"})
        self.rooms = [place for place in lexicon.places if place.noun.fits(indoors)]
        """Places where household things may be."""
        self._fitting: dict[frozenset[str], tuple[Noun, ...]] = {}

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.rng.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Sample an item uniformly."""
        return options[int(self.rng.random() * len(options))]

    def weighted(self, options: dict[T, float]) -> T:
        """Sample a key, with probability proportional to its value."""
        point = self.rng.random() * sum(options.values())
        for option, weight in options.items():
            point -= weight
            if point < 0:
                return option
        return option

    def nouns(self, classes: frozenset[str]) -> tuple[Noun, ...]:
        """All nouns that belong to one of ``classes``."""
        found = self._fitting.get(classes)
        if found is None:
            found = tuple(noun for noun in self.lexicon.nouns if noun.fits(classes))
            self._fitting[classes] = found
        return found

    @functools.cached_property
    def _qualities(self) -> dict[tuple[str, bool], tuple[Adjective, ...]]:
        """Adjectives by noun, attributive or not."""
        return {
            (noun.key, attributive): tuple(
                adjective
                for adjective in self.lexicon.adjectives
                if noun.fits(adjective.classes) and adjective.use != barred
            )
            for noun in self.lexicon.nouns
            for attributive, barred in ((True, "predicative"), (False, "attributive"))
        }

    def adjectives(self, noun: Noun, attributive: bool) -> tuple[Adjective, ...]:
        """Adjectives of a noun: attributive (*the red car*) or predicative (*the car is red*)."""
        return self._qualities[noun.key, attributive]

    @functools.cached_property
    def nouns_with_qualities(self) -> tuple[Noun, ...]:
        """All nouns that have a predicative adjective."""
        return tuple(noun for noun in self.lexicon.nouns if self.adjectives(noun, False))

    def attributes(self, noun: Noun, probability: float) -> tuple[Attribute, ...]:
        """Sample at most one attributive adjective, with or without an adverb of degree."""
        if not self.chance(probability):
            return ()
        options = self.adjectives(noun, attributive=True)
        if not options:
            return ()
        adjective = self.pick(options)
        graded = adjective.key not in UNGRADED and self.chance(0.08)
        return (Attribute(adjective, self.emphasis() if graded else None),)

    def emphasis(self) -> Adverb:
        """Sample an adverb of a high degree: *very*, but not *a little*."""
        return self.pick([adverb for adverb in self.adverbs["degree"] if adverb.english in STRONG])

    def thing(
        self,
        noun: Noun,
        subject: Entity | None = None,
        negated: bool = False,
        adjective: float = 0.22,
    ) -> Thing:
        """Sample determiner, number and attributes of a noun.

        Args:
            noun: The noun.
            subject: The subject of the clause if this is its object; *his* refers to it.
            negated: Whether to leave out determiners that sound unnatural when negated (*many*).
            adjective: Probability of an adjective.
        """
        scenic = noun.fits(SCENIC)
        invariable = noun.english.singular == noun.english.plural
        plural = not (noun.mass or invariable) and self.chance(0.04 if scenic else 0.22)
        plural = plural and noun.key not in SINGLE
        kind = self._determiner(noun, plural, negated, subject is None)
        owner = possessor = None
        if kind is Determiner.POSSESSIVE:
            owner = self._owner(subject)
            if owner.plural and noun.key in SINGLE:
                owner = Pronoun(1, False)
            if (
                (subject is None or not isinstance(subject, Indefinite))
                and self.chance(0.2)
                and noun.classes.isdisjoint({"family", "body"})
            ):
                owner, kind = None, Determiner.DEFINITE
                possessor = self._possessor()
        if noun.fits(SCENIC) and kind in (Determiner.NUMBER, Determiner.ALL, Determiner.MANY):
            kind = Determiner.DEFINITE
        number = self.rng.randrange(2, 13) if kind is Determiner.NUMBER else 0
        attributes = self.attributes(noun, adjective)
        return Thing(noun, kind, plural, attributes, owner, number, possessor)

    def _determiner(self, noun: Noun, plural: bool, negated: bool, is_subject: bool) -> Determiner:
        weights = {Determiner.DEFINITE: 50.0, Determiner.THIS: 6.0}
        if noun.fits(POSSESSABLE):
            weights[Determiner.POSSESSIVE] = 22.0
        if plural:
            weights |= {Determiner.NUMBER: 14.0, Determiner.SOME: 5.0, Determiner.MANY: 4.0}
            weights[Determiner.ALL] = 5.0
        elif not noun.mass:
            weights |= {Determiner.INDEFINITE: 10.0 if is_subject else 32.0, Determiner.EVERY: 3.0}
        if not is_subject and (noun.mass or plural):
            weights[Determiner.BARE] = 22.0
        if negated:
            weights = {kind: weight for kind, weight in weights.items() if kind in NEGATABLE}
        return self.weighted(weights)

    def _owner(self, subject: Entity | None) -> Pronoun:
        owners = [Pronoun(1, False), Pronoun(2, False), Pronoun(1, True)]
        if isinstance(subject, Pronoun):
            return subject if self.chance(0.7) else self.pick(owners)
        if isinstance(subject, Proper) and self.chance(0.7):
            return Pronoun(3, False, subject.name.gender)
        return self.pick(owners)

    def _possessor(self) -> Thing | Proper:
        if self.chance(0.5):
            return Proper(self.pick(self.lexicon.names))
        return Thing(self.pick(self.nouns(frozenset({"profession", "child"}))))

    def person(self, classes: frozenset[str] = HUMAN) -> Entity:
        """Sample a pronoun, a name or a noun of one of ``classes``."""
        roll = self.rng.random()
        if classes & HUMAN and roll < 0.42:
            return self.pick(SPEAKERS)
        if classes & HUMAN and roll < 0.56:
            return Proper(self.pick(self.lexicon.names))
        if "person" in classes and roll < 0.59:
            return self.pick((Indefinite.SOMEBODY, Indefinite.EVERYBODY, Indefinite.NOBODY))
        return self.thing(self.pick(self.nouns(classes)))

    def subject(self, verb: Verb) -> Entity:
        """Sample a subject of a verb."""
        if "weather" in verb.subject_classes:
            return Indefinite.IT
        return self.person(verb.subject_classes)

    def object(self, verb: Verb, subject: Entity, negated: bool) -> Entity:
        """Sample an object of a verb."""
        classes = verb.object_classes
        pronoun_fits = "person" in classes and verb.german.reflexive == ""
        if pronoun_fits and self.chance(0.3):
            options = [entity for entity in OBJECT_PRONOUNS if not same_person(entity, subject)]
            if self.foreign == "fr" and verb.french.government == "à":
                options = [entity for entity in options if entity.gender == "m"]
            return self.pick(options)
        if pronoun_fits and self.chance(0.15):
            return Proper(self.pick(self.lexicon.names))
        nouns = self.nouns(classes)
        noun = self.pick(nouns)
        if isinstance(subject, Thing) and subject.noun is noun:
            noun = self.pick(nouns)
        thing = self.thing(noun, subject, negated)
        if verb.key in IN_NUMBERS and not noun.mass:
            owned = thing.determiner in (Determiner.DEFINITE, Determiner.POSSESSIVE)
            kind = thing.determiner if owned else Determiner.BARE
            return dataclasses.replace(thing, determiner=kind, plural=True, number=0)
        return thing

    def recipient(self, subject: Entity) -> Entity:
        """Sample the recipient of an action."""
        if self.chance(0.45):
            options = [entity for entity in OBJECT_PRONOUNS if not same_person(entity, subject)]
            if self.foreign == "fr":
                # "Lui" is him and her; here it always means him.
                options = [entity for entity in options if entity.gender == "m"]
            return self.pick(options)
        if self.chance(0.3):
            return Proper(self.pick(self.lexicon.names))
        noun = self.pick(self.nouns(frozenset({"person"})))
        kind = Determiner.POSSESSIVE if "family" in noun.classes else Determiner.DEFINITE
        owner = self._owner(subject) if kind is Determiner.POSSESSIVE else None
        return Thing(noun, kind, self.chance(0.15), self.attributes(noun, 0.1), owner)

    def place(self, direction: bool = False, certain: bool = False) -> Location:
        """Sample a location or destination; ``certain`` excludes *everywhere* and *somewhere*."""
        if not direction and self.chance(0.18):
            adverb = self.pick(self.adverbs["place"])
            if not certain or adverb.english not in ("everywhere", "somewhere"):
                return Location(adverb=adverb)
        place: Place = self.pick(self.lexicon.places)
        return Location(place, direction)

    def time(self, tense: Tense) -> Time | None:
        """Sample a time expression that fits the tense; None if none does."""
        if tense not in TIME_KINDS:
            return None
        if self.chance(0.4):
            name = {
                Tense.PAST: "time_past",
                Tense.PRESENT: "time_present",
                Tense.FUTURE: "time_future",
            }[tense]
            return Time(adverb=self.pick(self.adverbs[name]))
        kind = self.pick(TIME_KINDS[tense])
        return self._time(kind)

    def duration(self) -> Time:
        """Sample a duration."""
        return self._time(TimeKind.DURATION)

    def _time(self, kind: TimeKind) -> Time:
        draw = self.rng.randrange
        if kind is TimeKind.CLOCK:
            # Not twelve, which is midi in French.
            hour = draw(1, 12)
            return Time(kind, hour, draw(4 if hour < 11 else 3))
        if kind is TimeKind.DATE:
            return Time(kind, draw(1, 29), draw(12))
        if kind in (TimeKind.AGO, TimeKind.WITHIN):
            unit = draw(0, 6)
            return Time(kind, draw(2 if unit == 0 else 1, 11), unit)
        if kind is TimeKind.DURATION:
            return Time(kind, draw(2, 11), draw(0, 2))
        ranges = {
            TimeKind.WEEKDAY: (0, 7),
            TimeKind.HABIT: (0, 7),
            TimeKind.LAST: (3, 6),
            TimeKind.NEXT: (3, 6),
            TimeKind.EVERY: (2, 6),
            TimeKind.MONTH: (0, 12),
            TimeKind.SEASON: (0, 4),
            TimeKind.DAYTIME: (0, 5),
            TimeKind.YEAR_NUMBER: (1950, 2021),
        }
        return Time(kind, draw(*ranges[kind]))

    def tense(self, verb: Verb) -> Tense:
        """Sample a tense that fits the verb."""
        if verb.aspect == "state" or verb.key in MOMENTARY:
            return self.weighted({Tense.PRESENT: 55, Tense.PAST: 35, Tense.FUTURE: 10})
        return self.weighted(
            {
                Tense.PRESENT: 28,
                Tense.PAST: 36,
                Tense.PERFECT: 10,
                Tense.FUTURE: 14,
                Tense.PROGRESSIVE: 12,
            }
        )

    def polarity(self, tense: Tense, state: bool) -> Polarity:
        """Sample a polarity whose translation is unambiguous with this tense."""
        weights = {Polarity.POSITIVE: 78.0, Polarity.NOT: 16.0}
        if tense is Tense.PERFECT:
            weights = {Polarity.POSITIVE: 45, Polarity.NEVER: 25, Polarity.NOT_YET: 30}
        elif tense is Tense.PRESENT or (tense is Tense.PAST and state):
            weights |= {Polarity.NEVER: 3.0, Polarity.NO_LONGER: 3.0}
        return self.weighted(weights)


def same_person(first: Entity, second: Entity) -> bool:
    """Return whether both are first or both are second person: *I see us* is not idiomatic."""
    if not (isinstance(first, Pronoun) and isinstance(second, Pronoun)):
        return False
    return first.person == second.person and first.person != 3
