"""Compose sentences of two clauses: reasons, conditions, reports, relative clauses."""

import dataclasses

from data_prep.phrasebook.asking import CERTAIN, QuestionComposer
from data_prep.phrasebook.composing import past_is_clear
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Clause,
    Determiner,
    Entity,
    Front,
    Gap,
    Indefinite,
    Link,
    Modal,
    Mood,
    Polarity,
    Pronoun,
    Proper,
    Quality,
    Relative,
    Role,
    Sentence,
    Subordinate,
    Tense,
    Thing,
    Whereabouts,
    agreement,
)
from data_prep.phrasebook.sampling import HUMAN, SPEAKERS
from data_prep.phrasebook.sense import (
    APPEALING,
    BAD_MOODS,
    CHOSEN,
    DAUNTING,
    GOOD_MOODS,
    MOODS,
    SOMEWHERE,
    UNGRADED,
    UNWILLED,
)


class SentenceComposer(QuestionComposer):
    """Composes sentences of all kinds, also of two clauses."""

    def _pronoun_for(self, subject: Entity) -> Entity | None:
        """Return the pronoun by which the second clause refers to the subject of the first."""
        if isinstance(subject, Pronoun):
            return subject
        if isinstance(subject, Proper):
            return Pronoun(3, False, subject.name.gender)
        return None

    def _speaker(self) -> Entity:
        if self.chance(0.6):
            return self.pick(SPEAKERS)
        return Proper(self.pick(self.lexicon.names))

    def _mood(
        self, subject: Entity, tense: Tense, moods: frozenset[str] = MOODS, sure: bool = False
    ) -> Clause:
        adjectives = [a for a in self.lexicon.adjectives if a.key in moods]
        adverb = self.emphasis() if self.chance(0.25) else None
        doubtful = adverb is None and not sure and self.chance(0.15)
        polarity = Polarity.NOT if doubtful else Polarity.POSITIVE
        adjective = self.pick(adjectives)
        if adjective.key in UNGRADED:
            adverb = None
        return Clause(subject, Quality(adjective, adverb=adverb), tense, polarity)

    def _main(self, subject: Entity, *tenses: Tense) -> Clause:
        while True:
            clause = self.action_clause(subject, self.pick(tenses))
            action = clause.predicate
            assert isinstance(action, Action)
            if action.verb.key in SOMEWHERE | {"die", "disappear"}:
                continue
            if action.verb.aspect == "state":
                continue
            if clause.tense in tenses and clause.polarity in (Polarity.POSITIVE, Polarity.NOT):
                return dataclasses.replace(clause, time=None, frequency=None)

    def reason(self) -> Sentence:
        """Compose *because* or *although* with a mood of the subject or a quality of the object."""
        link = Link.BECAUSE if self.chance(0.6) else Link.ALTHOUGH
        if self.chance(0.45):
            return self._object_reason(link)
        subject = self._speaker()
        main = self._main(subject, Tense.PRESENT, Tense.PAST)
        while not _is_act(main):
            main = self._main(subject, Tense.PRESENT, Tense.PAST)
        # Good moods are reasons to act, bad moods are reasons not to; *although* inverts this.
        natural = (main.polarity is Polarity.POSITIVE) == (link is Link.BECAUSE)
        moods = GOOD_MOODS if natural else BAD_MOODS
        again = self._pronoun_for(subject)
        assert again is not None
        front = Front.SUBORDINATE if self.chance(0.25) else Front.SUBJECT
        if front is Front.SUBORDINATE:
            # The first clause has the name, the second one the pronoun.
            reason = self._mood(subject, main.tense, moods, sure=True)
            main = dataclasses.replace(main, subject=again)
        else:
            reason = self._mood(again, main.tense, moods, sure=True)
        return Sentence(main, front=front, subordinate=Subordinate(link, reason))

    def _object_reason(self, link: Link) -> Sentence:
        while True:
            clause = self._main(self._speaker(), Tense.PRESENT, Tense.PAST)
            action = clause.predicate
            assert isinstance(action, Action)
            thing = action.direct
            if not isinstance(thing, Thing) or thing.determiner not in CERTAIN:
                continue
            if thing.noun.fits(HUMAN) or thing.possessor is not None:
                continue
            if not _is_act(clause) or action.verb.key not in CHOSEN:
                continue
            natural = (clause.polarity is Polarity.POSITIVE) == (link is Link.BECAUSE)
            wanted = APPEALING if natural else DAUNTING
            options = [a for a in self.adjectives(thing.noun, False) if a.key in wanted]
            if not options:
                continue
            thing = dataclasses.replace(thing, attributes=())
            clause = dataclasses.replace(
                clause, predicate=dataclasses.replace(action, direct=thing, manner=None), place=None
            )
            adverb = self.emphasis() if self.chance(0.3) else None
            adjective = self.pick(options)
            quality = Quality(adjective, adverb=None if adjective.key in UNGRADED else adverb)
            reason = Clause(Anaphor(thing), quality, clause.tense)
            return Sentence(clause, subordinate=Subordinate(link, reason))

    def condition(self) -> Sentence:
        """Compose *if it rains …*, *when she was in the garden …* or *while I am at school …*."""
        link = self.pick((Link.IF, Link.WHEN, Link.WHILE))
        subject = self._speaker()
        again = self._pronoun_for(subject)
        assert again is not None
        if link is Link.IF:
            weather = [verb for verb in self.lexicon.verbs if "weather" in verb.subject_classes]
            if self.chance(0.4):
                first = Clause(Indefinite.IT, Action(self.pick(weather)))
            else:
                first = self._mood(again, Tense.PRESENT)
            main = self._main(subject, Tense.PRESENT, Tense.FUTURE)
        else:
            tense = Tense.PAST if link is Link.WHEN else Tense.PRESENT
            if self.chance(0.3) and tense is Tense.PAST:
                first = self._mood(again, tense)
            else:
                first = Clause(again, Whereabouts(), tense, place=self.place(certain=True))
            other = subject if link is Link.WHEN else self._another(subject)
            main = self._main(other, tense)
        main = dataclasses.replace(main, place=None)
        return self._conditioned(link, first, main, subject)

    def _another(self, subject: Entity) -> Entity:
        while True:
            other = self._speaker()
            differs = agreement(other) != agreement(subject) or isinstance(other, Proper)
            if differs and other != subject:
                return other

    def _conditioned(self, link: Link, first: Clause, main: Clause, subject: Entity) -> Sentence:
        front = Front.SUBORDINATE if self.chance(0.5) else Front.SUBJECT
        again = self._pronoun_for(subject)
        if front is Front.SUBORDINATE and main.subject is subject and again is not None:
            if first.subject == again:
                first = dataclasses.replace(first, subject=subject)
                main = dataclasses.replace(main, subject=again)
        elif main.subject is not subject and first.subject == again:
            first = dataclasses.replace(first, subject=subject)
        return Sentence(main, front=front, subordinate=Subordinate(link, first))

    def report(self) -> Sentence:
        """Compose *I know that …* or *I don't know whether …*."""
        verbs = [verb for verb in self.lexicon.verbs if verb.frame == "clause"]
        verb = self.pick(verbs)
        if self.chance(0.2):
            verb = next(verb for verb in verbs if verb.key == "know")
        content = self.action_clause()
        knows = verb.key == "know"
        doubt = knows and self.chance(0.6)
        link = Link.WHETHER if doubt else Link.THAT
        content = dataclasses.replace(content, frequency=None)
        action = Action(verb, content=Subordinate(link, content))
        polarity = Polarity.NOT if doubt else Polarity.POSITIVE
        subject = self._speaker()
        return Sentence(Clause(subject, action, Tense.PRESENT, polarity))

    def relative(self) -> Sentence:
        """Compose a statement with a relative clause."""
        while True:
            clause = self.action_clause()
            action = clause.predicate
            assert isinstance(action, Action)
            if action.verb.key in SOMEWHERE:
                continue
            clause = dataclasses.replace(clause, time=None, frequency=None, place=None)
            if self.chance(0.5):
                thing = clause.subject
                if isinstance(thing, Thing) and thing.determiner is Determiner.DEFINITE:
                    relative = self._relative(thing, action)
                    if relative is not None:
                        return Sentence(dataclasses.replace(clause, subject=relative))
                continue
            direct = action.direct
            governed = action.verb.german.government in ("acc", "dat", "dat+acc")
            definite = isinstance(direct, Thing) and direct.determiner is Determiner.DEFINITE
            if isinstance(direct, Thing) and definite and governed:
                relative = self._relative(direct, action)
                if relative is not None:
                    predicate = dataclasses.replace(action, direct=relative, manner=None)
                    return Sentence(dataclasses.replace(clause, predicate=predicate))

    def _relative(self, thing: Thing, main: Action) -> Thing | None:
        head = dataclasses.replace(thing, possessor=None, attributes=(), relative=None)
        gap = Gap(head, thing.noun.fits(HUMAN))
        if self.chance(0.45):
            adjectives = self.adjectives(thing.noun, attributive=False)
            if thing.noun.fits(HUMAN) and self.chance(0.5):
                clause = Clause(gap, Whereabouts(), place=self.place(certain=True))
            elif adjectives:
                tense = Tense.PAST if self.chance(0.3) else Tense.PRESENT
                clause = Clause(gap, Quality(self.pick(adjectives)), tense)
            else:
                return None
            return dataclasses.replace(head, relative=Relative(clause, Role.SUBJECT))
        for _ in range(20):
            verb = self.verb("transitive", "prepositional")
            fits = thing.noun.fits(verb.object_classes) and verb.subject_classes & HUMAN
            if fits and verb.aspect == "action" and verb.key not in ("marry", main.verb.key):
                speaker = self._speaker()
                tense = self.pick((Tense.PRESENT, Tense.PAST))
                if not past_is_clear(verb, speaker):
                    tense = Tense.FUTURE
                clause = Clause(speaker, Action(verb, gap), tense)
                return dataclasses.replace(head, relative=Relative(clause, Role.DIRECT))
        return None

    def coordination(self) -> Sentence:
        """Compose two statements joined by *and* or *but*."""
        subject = self._speaker()
        other = self._another(subject)
        tense = self.pick((Tense.PRESENT, Tense.PAST, Tense.FUTURE))
        first, second = self._main(subject, tense), self._main(other, tense)
        link = Link.AND if self.chance(0.6) else Link.BUT
        return Sentence(first, Mood.STATEMENT, coordinate=Subordinate(link, second))


def _is_act(clause: Clause) -> bool:
    """Return whether the action of a clause is done on purpose."""
    action = clause.predicate
    assert isinstance(action, Action)
    willed = action.verb.aspect == "action" and action.verb.key not in UNWILLED
    return willed and clause.modal in (None, Modal.WANT, Modal.CAN)
