"""Riddles about the meaning of *it*, as in the article that announced the Transformer.

"The animal didn't cross the street because it was too tired / too wide." English has *it* for both
nouns. In a language with genders, the pronoun shows which noun is meant.
"""

import random
import zlib
from dataclasses import dataclass

from data_prep.phrasebook.entries import Adjective, Lexicon, Noun, RiddleFrame
from data_prep.phrasebook.meaning import (
    Action,
    Anaphor,
    Clause,
    Degree,
    Determiner,
    Link,
    Modal,
    Polarity,
    Quality,
    Sentence,
    Subordinate,
    Tense,
    Thing,
)


@dataclass(frozen=True)
class Riddle:
    """The first clause of a riddle: a subject, a verb and an object."""

    frame: RiddleFrame
    subject: Noun
    object: Noun

    @property
    def combination(self) -> tuple[str, str, str]:
        """The pair of nouns; riddles are held out by it."""
        return ("riddle", self.subject.key, self.object.key)


@dataclass(frozen=True)
class Wording:
    """Tense, modal verb and adjective of a riddle; the adjective shows what *it* refers to."""

    modal: Modal | None
    tense: Tense
    adjective: Adjective
    means_subject: bool


def gender(noun: Noun, language: str) -> str:
    """The gender of a noun in ``de`` or ``fr``."""
    return noun.german.gender if language == "de" else noun.french.gender


class RiddleSampler:
    """Samples riddles; some pairs of nouns are held out for the test set."""

    def __init__(self, lexicon: Lexicon, language: str, seed: int, held_out_share: float) -> None:
        """List all riddles whose nouns differ in gender; ``seed`` determines which are held out."""
        self._by_frame: list[tuple[list[Riddle], list[Riddle]]] = []
        for frame in lexicon.riddles:
            train: list[Riddle] = []
            test: list[Riddle] = []
            for subject in lexicon.nouns:
                if not subject.fits(frame.subject_classes):
                    continue
                for thing in lexicon.nouns:
                    if thing is subject or not thing.fits(frame.object_classes):
                        continue
                    if subject.mass or thing.mass:
                        continue
                    if gender(subject, language) == gender(thing, language):
                        continue
                    riddle = Riddle(frame, subject, thing)
                    is_test = is_held_out(riddle.combination, seed, held_out_share)
                    (test if is_test else train).append(riddle)
            if train:
                self._by_frame.append((train, test))

    def sample(self, rng: random.Random, held_out: bool = False) -> Riddle | None:
        """Sample a riddle; None if the sampled verb has none that is held out."""
        # The square root lets verbs with few riddles occur, but does not repeat them too often.
        choices = [test if held_out else train for train, test in self._by_frame]
        [riddles] = rng.choices(choices, [len(choice) ** 0.5 for choice in choices])
        return rng.choice(riddles) if riddles else None

    def sample_wording(self, riddle: Riddle, rng: random.Random, means_subject: bool) -> Wording:
        """Sample tense, modal verb and adjective of a riddle."""
        frame = riddle.frame
        words = frame.subject_adjectives if means_subject else frame.object_adjectives
        modal, tense = rng.choice(
            ((None, Tense.PAST), (None, Tense.PAST), (Modal.CAN, Tense.PAST), (None, Tense.PRESENT))
        )
        return Wording(modal, tense, rng.choice(words), means_subject)


def sentence(riddle: Riddle, wording: Wording) -> Sentence:
    """The meaning of a riddle."""
    subject = Thing(riddle.subject, Determiner.DEFINITE)
    thing = Thing(riddle.object, Determiner.DEFINITE)
    action = Action(riddle.frame.verb, thing)
    main = Clause(subject, action, wording.tense, Polarity.NOT, wording.modal)
    meant = Anaphor(subject if wording.means_subject else thing)
    reason = Clause(meant, Quality(wording.adjective, Degree.TOO), wording.tense)
    return Sentence(main, subordinate=Subordinate(Link.BECAUSE, reason))


def is_held_out(combination: tuple[str, str, str], seed: int, share: float) -> bool:
    """Return whether a combination is held out; a checksum selects about ``share`` of all."""
    key = "|".join((*combination, str(seed))).encode()
    return zlib.crc32(key) % 10_000 < share * 10_000
