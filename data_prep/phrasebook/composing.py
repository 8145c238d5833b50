"""Compose statements: a subject and a predicate, with circumstances."""

import dataclasses

from data_prep.phrasebook.entries import Adjective, Noun, Verb
from data_prep.phrasebook.meaning import (
    Action,
    Clause,
    Degree,
    Determiner,
    Entity,
    Existence,
    Front,
    Identity,
    Indefinite,
    Location,
    Modal,
    Polarity,
    Pronoun,
    Proper,
    Quality,
    Sentence,
    Tense,
    Thing,
    Whereabouts,
    agreement,
)
from data_prep.phrasebook.sampling import HUMAN, SPEAKERS, Sampler
from data_prep.phrasebook.sense import (
    ANYWHERE,
    COMPANIONABLE,
    LASTING,
    ONCE,
    SOMEWHERE,
    UNGRADED,
    UNSPECIFIED,
    UNWILLED,
)

HASTY = frozenset({"immediately", "soon", "afterwards", "now"})
"""Adverbs of time that occur with actions only in affirmative clauses."""
EVENTFUL = frozenset({"suddenly", "finally"})
"""Sentence adverbs that occur only in past statements without a frequency."""
QUANTIFIED = (
    Determiner.ALL,
    Determiner.EVERY,
    Determiner.SOME,
    Determiner.MANY,
    Determiner.NUMBER,
    Determiner.INDEFINITE,
)


class Composer(Sampler):
    """Composes statements from sampled words."""

    def verb(self, *frames: str) -> Verb:
        """Sample a verb with one of the frames."""
        return self.pick([verb for verb in self.lexicon.verbs if verb.frame in frames])

    def action_clause(
        self, subject: Entity | None = None, tense: Tense | None = None, plain: bool = False
    ) -> Clause:
        """Compose a clause with a subject and a verb.

        Args:
            subject: The subject; sampled to fit the verb if None.
            tense: The tense; sampled to fit the verb if None.
            plain: Whether to leave out modals, negation and circumstances.
        """
        verb = self._verb_for(subject)
        subject = self.subject(verb) if subject is None else subject
        state = verb.aspect == "state"
        tense = self.tense(verb) if tense is None else tense
        if state and tense in (Tense.PERFECT, Tense.PROGRESSIVE):
            tense = Tense.PRESENT
        if tense is Tense.PAST and not past_is_clear(verb, subject):
            tense = Tense.FUTURE
        modal = None if plain else self._modal(verb, subject, tense)
        if modal is not None:
            tense = self._modal_tense(modal)
        polarity = Polarity.POSITIVE
        if not plain or tense is Tense.PERFECT:
            polarity = self.polarity(tense, state or modal is not None)
        polarity = safe_polarity(subject, polarity)
        if subject is Indefinite.NOBODY and tense is Tense.PERFECT:
            tense = Tense.PAST
        if modal in (Modal.MAY, Modal.MUST) and polarity is not Polarity.POSITIVE:
            polarity = Polarity.NOT if modal is Modal.MUST else Polarity.POSITIVE
        if modal is Modal.MUST and tense is Tense.PAST:
            polarity = Polarity.POSITIVE
        predicate = self._action(verb, subject, polarity)
        doing = tense is Tense.PROGRESSIVE and polarity is Polarity.NOT
        if doing and isinstance(predicate.direct, Thing):
            direct = self._fix_object(predicate.direct, Polarity.NO_LONGER, subject)
            predicate = dataclasses.replace(predicate, direct=direct)
        clause = Clause(subject, predicate, tense, polarity, modal)
        return clause if plain else self._circumstances(clause, predicate)

    def _verb_for(self, subject: Entity | None) -> Verb:
        while True:
            verb = self.pick(self.lexicon.verbs)
            if verb.frame == "clause":
                continue
            if subject is None or (
                verb.subject_classes & HUMAN and verb.subject_classes.isdisjoint({"weather"})
            ):
                return verb

    def _modal(self, verb: Verb, subject: Entity, tense: Tense) -> Modal | None:
        if verb.aspect == "state" or not self.chance(0.2) or tense is Tense.FUTURE:
            return None
        if not verb.subject_classes & HUMAN:
            return Modal.CAN if verb.key not in UNWILLED and subject is not Indefinite.IT else None
        if verb.key in UNWILLED:
            return None
        return self.pick(tuple(Modal))

    def _modal_tense(self, modal: Modal) -> Tense:
        if modal in (Modal.SHOULD, Modal.WOULD_LIKE):
            return Tense.PRESENT
        return Tense.PAST if self.chance(0.35) else Tense.PRESENT

    def _action(self, verb: Verb, subject: Entity, polarity: Polarity) -> Action:
        negated = polarity is not Polarity.POSITIVE
        direct = recipient = None
        goal = self.place(direction=True) if verb.frame == "motion" else None
        if verb.object_classes:
            direct = self.object(verb, subject, negated or subject is Indefinite.NOBODY)
            direct = self._fix_object(direct, polarity, subject)
            if verb.key in UNSPECIFIED and self.chance(0.12):
                plain = polarity in (Polarity.POSITIVE, Polarity.NOT)
                direct = (
                    Indefinite.SOMETHING
                    if plain and not isinstance(subject, Indefinite)
                    else direct
                )
        if verb.frame == "ditransitive":
            recipient = self.recipient(subject)
        manner = None
        willed = verb.subject_classes & HUMAN and verb.key not in UNWILLED
        busy = verb.frame != "ditransitive" and not isinstance(direct, Indefinite)
        if willed and busy and verb.aspect == "action" and not negated and self.chance(0.08):
            manner = self.pick(self.adverbs["manner"])
            if manner.english == "together" and not agreement(subject)[1]:
                manner = None
        companion: Entity | None = None
        if verb.english.base in COMPANIONABLE and not verb.object_classes and self.chance(0.2):
            companion = self.recipient(subject)
        return Action(verb, direct, recipient, manner, goal, companion)

    def _fix_object(self, direct: Entity, polarity: Polarity, subject: Entity) -> Entity:
        """Replace an indefinite or missing determiner that the negation would make ambiguous."""
        empty = (Determiner.INDEFINITE, Determiner.BARE)
        if not isinstance(direct, Thing) or direct.determiner not in empty:
            return direct
        if polarity in (Polarity.NOT_YET, Polarity.NO_LONGER) or subject is Indefinite.NOBODY:
            return dataclasses.replace(direct, determiner=Determiner.DEFINITE)
        if polarity is Polarity.NEVER:
            return dataclasses.replace(direct, determiner=Determiner.THIS)
        return direct

    def _circumstances(self, clause: Clause, action: Action) -> Clause:
        verb = action.verb
        time = frequency = place = None
        may_have_time = clause.modal is not None or verb.aspect == "action"
        if clause.polarity in (Polarity.NEVER, Polarity.NO_LONGER):
            may_have_time = False
        if may_have_time and self.chance(0.4):
            time = self.time(clause.tense)
            hasty = time is not None and time.adverb is not None and time.adverb.english in HASTY
            time = None if hasty and clause.polarity is not Polarity.POSITIVE else time
            if time is not None and verb.key in LASTING and self.chance(0.2):
                time = self.duration()
        elif verb.aspect == "action" and self._can_repeat(clause, action) and self.chance(0.25):
            frequency = self.pick(self.adverbs["frequency"])
        at_place = verb.key in ANYWHERE and action.goal is None and self.chance(0.3)
        if at_place or verb.key in SOMEWHERE:
            place = self.place()
        if clause.tense is Tense.PROGRESSIVE:
            time = None
        return dataclasses.replace(clause, time=time, frequency=frequency, place=place)

    def _can_repeat(self, clause: Clause, action: Action) -> bool:
        once = action.verb.key in ONCE or clause.modal is not None or action.manner is not None
        present = clause.tense in (Tense.PRESENT, Tense.PAST)
        return present and not once and clause.polarity is Polarity.POSITIVE

    def statement(self) -> Sentence:
        """Compose a statement; it may begin with the time or the place."""
        clause = self.action_clause()
        front = Front.SUBJECT
        if clause.time is not None and self.chance(0.35):
            front = Front.TIME
        elif clause.place is not None and clause.place.adverb is None and self.chance(0.25):
            front = Front.PLACE
        opening = None
        if front is Front.SUBJECT and self.chance(0.06) and _is_simple(clause):
            opening = self.pick(self.adverbs["sentence"])
            eventful = clause.tense is Tense.PAST and clause.frequency is None
            if opening.english in EVENTFUL and not eventful:
                opening = None
        return Sentence(clause, front=front, opening=opening)

    def owned(self) -> Thing:
        """Sample a noun with a possessive: *my*, *your*, *our*."""
        noun = self.pick(self.nouns(frozenset({"portable", "family", "pet"})))
        owner = self.pick((Pronoun(1, False), Pronoun(2, False), Pronoun(1, True)))
        return Thing(noun, Determiner.POSSESSIVE, owner=owner)

    def quality(self) -> Sentence:
        """Compose a statement with a predicative adjective, possibly a comparison."""
        adjective = self.pick([a for a in self.lexicon.adjectives if a.use != "attributive"])
        nouns = self.nouns(adjective.classes)
        noun = self.pick(nouns)
        if self.chance(0.5):
            # The noun is sampled first, so that rare ones occur too.
            noun = self.pick(self.nouns_with_qualities)
            adjective = self.pick(self.adjectives(noun, attributive=False))
            nouns = self.nouns(adjective.classes)
        thing = self.thing(noun, adjective=0.0)
        subject: Entity = thing
        if adjective.classes & HUMAN and self.chance(0.5):
            subject = self.person(adjective.classes & HUMAN)
        tense = self.weighted({Tense.PRESENT: 6, Tense.PAST: 4, Tense.FUTURE: 1})
        polarity = self.weighted({Polarity.POSITIVE: 8.0, Polarity.NOT: 2.0})
        polarity = safe_polarity(subject, polarity)
        predicate = Quality(adjective)
        gradable = adjective.key not in UNGRADED
        if gradable and self.chance(0.3):
            predicate = self._comparison(adjective, subject, nouns)
        elif gradable and polarity is Polarity.POSITIVE and self.chance(0.4):
            if self.chance(0.3):
                predicate = Quality(adjective, Degree.TOO)
            else:
                predicate = Quality(adjective, adverb=self.pick(self.adverbs["degree"]))
        clause = Clause(subject, predicate, tense, polarity)
        return Sentence(clause)

    def _comparison(
        self, adjective: Adjective, subject: Entity, nouns: tuple[Noun, ...]
    ) -> Quality:
        degree = self.pick((Degree.MORE_THAN, Degree.AS_AS))
        if isinstance(subject, Thing):
            shared = subject.noun.classes & adjective.classes
            nouns = tuple(other for other in nouns if other.fits(shared))
        noun = self.pick(nouns)
        than: Entity = Thing(noun, Determiner.DEFINITE)
        if isinstance(subject, (Pronoun, Proper)):
            than = Proper(self.pick(self.lexicon.names))
        elif isinstance(subject, Thing) and subject.noun is noun:
            owner = self.pick((Pronoun(1, False), Pronoun(2, False), Pronoun(1, True)))
            than = Thing(noun, Determiner.POSSESSIVE, owner=owner)
        return Quality(adjective, degree, than=than)

    def being(self) -> Sentence:
        """Compose a statement about a location, a profession or existence."""
        tense = self.weighted({Tense.PRESENT: 6, Tense.PAST: 4})
        roll = self.rng.random()
        if roll < 0.45:
            subject = self.person() if self.chance(0.6) else self.owned()
            human = not isinstance(subject, Thing) or "person" in subject.noun.classes
            time = self.time(tense) if human and self.chance(0.3) else None
            place = self.place(certain=True) if human else Location(self.pick(self.rooms))
            polarity = Polarity.NOT if self.chance(0.2) else Polarity.POSITIVE
            polarity = safe_polarity(subject, polarity)
            return Sentence(
                Clause(subject, Whereabouts(), tense, polarity, None, time, None, place)
            )
        if roll < 0.65:
            subject = self._one_person()
            noun = self._profession(subject)
            return Sentence(Clause(subject, Identity(noun), tense))
        classes = frozenset(
            {"food", "furniture", "pet", "portable", "drink", "kitchenware", "person"}
        )
        noun = self.pick(self.nouns(classes))
        invariable = noun.english.singular == noun.english.plural
        plural = not (noun.mass or invariable) and self.chance(0.5)
        kind = (
            self.pick((Determiner.NUMBER, Determiner.MANY, Determiner.SOME))
            if plural
            else (Determiner.BARE if noun.mass else Determiner.INDEFINITE)
        )
        number = self.rng.randrange(2, 21) if kind is Determiner.NUMBER else 0
        thing = Thing(noun, kind, plural, self.attributes(noun, 0.3), number=number)
        negated = kind in (Determiner.BARE, Determiner.INDEFINITE) and self.chance(0.3)
        polarity = Polarity.NOT if negated else Polarity.POSITIVE
        place = Location(self.pick(self.lexicon.places if noun.fits(HUMAN) else self.rooms))
        clause = Clause(Indefinite.IT, Existence(thing), tense, polarity, place=place)
        return Sentence(clause, front=Front.PLACE if self.chance(0.35) else Front.SUBJECT)

    def _one_person(self) -> Entity:
        speakers: list[Entity] = [*SPEAKERS[:4], Proper(self.pick(self.lexicon.names))]
        return self.pick(speakers)

    def _profession(self, subject: Entity) -> Noun:
        # Most professions are in the tables with one gender only, so the noun has the gender of the
        # subject; *I* and *you* are masculine.
        gender = "m"
        if isinstance(subject, Pronoun):
            gender = subject.gender
        elif isinstance(subject, Proper):
            gender = subject.name.gender
        nouns = self.nouns(frozenset({"profession"}))
        return self.pick([noun for noun in nouns if noun.german.gender == gender])


def _is_simple(clause: Clause) -> bool:
    tenses = (Tense.PRESENT, Tense.PAST, Tense.FUTURE)
    return clause.polarity is Polarity.POSITIVE and clause.tense in tenses


def past_is_clear(verb: Verb, subject: Entity) -> bool:
    """Whether the English past differs from the present: *they read* is both."""
    person, plural = agreement(subject)
    return verb.english.past != verb.english.base or (person == 3 and not plural)


def safe_polarity(subject: Entity, polarity: Polarity) -> Polarity:
    """Return the polarity; POSITIVE for a quantified subject, with which negation is ambiguous.

    An example is *all the men don't sleep*.
    """
    quantified = isinstance(subject, Thing) and subject.determiner in QUANTIFIED
    if quantified or isinstance(subject, Indefinite):
        weather = subject is Indefinite.IT and polarity is Polarity.NOT
        return polarity if weather else Polarity.POSITIVE
    return polarity
