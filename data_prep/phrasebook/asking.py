"""Compose questions and imperatives."""

import dataclasses

from data_prep.phrasebook.composing import HASTY, Composer
from data_prep.phrasebook.meaning import (
    Action,
    Asked,
    Clause,
    Determiner,
    Gap,
    Indefinite,
    Mood,
    Polarity,
    Pronoun,
    Sentence,
    Tense,
    Thing,
    Time,
    Whereabouts,
)
from data_prep.phrasebook.sampling import HUMAN
from data_prep.phrasebook.sense import ANYWHERE, REQUESTED, SOMEWHERE, UNWILLED

CERTAIN = (Determiner.DEFINITE, Determiner.THIS, Determiner.POSSESSIVE)
"""Determiners of things that both speakers know."""


class QuestionComposer(Composer):
    """Composes questions and imperatives."""

    def polar_question(self) -> Sentence:
        """Compose a yes/no question: *does she …?*"""
        while True:
            clause = self.action_clause()
            odd = clause.polarity in (Polarity.NEVER, Polarity.NO_LONGER, Polarity.NOT)
            if not odd and not isinstance(clause.subject, Indefinite):
                return Sentence(clause, Mood.QUESTION)

    def word_question(self) -> Sentence:
        """Compose a question with a question word: who, what, where, when, why, how."""
        asked = self.pick(
            (Asked.WHERE, Asked.WHEN, Asked.WHY, Asked.HOW, Asked.WHO, Asked.WHAT, Asked.WHOM)
        )
        if asked is Asked.WHERE and self.chance(0.6):
            subject = self.owned()
            tense = Tense.PAST if self.chance(0.35) else Tense.PRESENT
            return Sentence(Clause(subject, Whereabouts(), tense), Mood.QUESTION, asked)
        while True:
            clause = self.action_clause(plain=True)
            question = self._ask(clause, asked)
            if question is not None:
                return question

    def _ask(self, clause: Clause, asked: Asked) -> Sentence | None:
        """Turn a statement into a question; None if it lacks the constituent that is asked for."""
        action = clause.predicate
        assert isinstance(action, Action)
        action = dataclasses.replace(action, manner=None)
        clause = dataclasses.replace(clause, predicate=action)
        plain = clause.polarity is Polarity.POSITIVE and clause.tense is not Tense.PERFECT
        if isinstance(clause.subject, Indefinite) or not plain or action.verb.key in SOMEWHERE:
            return None
        if asked is Asked.WHO:
            human = bool(action.verb.subject_classes & HUMAN)
            clause = dataclasses.replace(clause, subject=Gap(person=True))
            return Sentence(clause, Mood.QUESTION, asked) if human else None
        if asked in (Asked.WHAT, Asked.WHOM):
            return self._ask_object(clause, action, asked)
        if asked is Asked.WHERE and action.goal is not None:
            clause = dataclasses.replace(clause, predicate=dataclasses.replace(action, goal=None))
            return Sentence(clause, Mood.QUESTION, asked)
        started = clause.tense is not Tense.PROGRESSIVE
        suits = {
            Asked.WHERE: action.verb.key in ANYWHERE,
            Asked.HOW: action.goal is not None and clause.tense is Tense.PAST,
            Asked.WHEN: started and action.verb.aspect == "action",
            Asked.WHY: started,
        }
        return Sentence(clause, Mood.QUESTION, asked) if suits[asked] else None

    def _ask_object(self, clause: Clause, action: Action, asked: Asked) -> Sentence | None:
        """Ask for the object: whom, what, which or how many."""
        accusative = action.verb.german.government == "acc"
        direct = action.verb.french.government == "direct"
        if not (accusative and direct) or action.verb.english.complement:
            return None
        thing = action.direct
        if asked is Asked.WHAT and self.chance(0.5) and isinstance(thing, Thing):
            return self._which(clause, action, thing)
        people = "person" in action.verb.object_classes
        if people != (asked is Asked.WHOM):
            return None
        gap = dataclasses.replace(action, direct=Gap(person=people))
        return Sentence(dataclasses.replace(clause, predicate=gap), Mood.QUESTION, asked)

    def _which(self, clause: Clause, action: Action, thing: Thing) -> Sentence | None:
        if thing.noun.mass:
            return None
        kind = Determiner.HOW_MANY if thing.plural else Determiner.WHICH
        asked = Thing(thing.noun, kind, thing.plural)
        predicate = dataclasses.replace(action, direct=asked)
        return Sentence(dataclasses.replace(clause, predicate=predicate), Mood.QUESTION, Asked.WHAT)

    def imperative(self) -> Sentence:
        """Compose an order or a request to one friend."""
        while True:
            verb = self.pick(self.lexicon.verbs)
            human = verb.subject_classes & HUMAN
            if not human or verb.aspect == "state" or verb.key in UNWILLED | {"hunt", "marry"}:
                continue
            if verb.frame == "clause":
                continue
            polarity = Polarity.NOT if self.chance(0.25) else Polarity.POSITIVE
            subject = Pronoun(2, False)
            action = self._action(verb, subject, polarity)
            direct = action.direct
            vague = isinstance(direct, Thing) and direct.determiner not in CERTAIN
            if vague and verb.key not in REQUESTED:
                continue
            clause = Clause(subject, action, Tense.PRESENT, polarity)
            if self.chance(0.15):
                odd = HASTY if polarity is Polarity.NOT else HASTY - {"soon"}
                fitting = [a for a in self.adverbs["time_future"] if a.english not in odd]
                clause = dataclasses.replace(clause, time=Time(adverb=self.pick(fitting)))
            return Sentence(clause, Mood.IMPERATIVE, please=self.chance(0.3))
