"""The riddle of the Transformer paper: which noun does *it* refer to?

"The animal didn't cross the street because it was too tired / too wide." English says *it* for
both; a language with genders must decide.
"""

from __future__ import annotations

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
    """One scene: a subject, a verb and an object."""

    frame: RiddleFrame
    subject: Noun
    object: Noun

    @property
    def combination(self) -> tuple[str, str, str]:
        """The pair of nouns, which is what is held out."""
        return ("riddle", self.subject.key, self.object.key)


@dataclass(frozen=True)
class Telling:
    """The form of a riddle: its tense, and *didn't* or *couldn't*."""

    modal: Modal | None
    tense: Tense
    adjective: Adjective
    means_subject: bool


def gender(noun: Noun, language: str) -> str:
    """The gender of a noun in ``de`` or ``fr``."""
    return noun.german.gender if language == "de" else noun.french.gender


class RiddleMaker:
    """Samples riddles; some pairs of nouns occur only in the test set."""

    def __init__(self, lexicon: Lexicon, language: str, seed: int, held_share: float) -> None:
        """Lists all the scenes whose nouns differ in gender, and parts them by ``seed``."""
        self.seed, self.held_share = seed, held_share
        self.frames: list[tuple[RiddleFrame, list[Riddle], list[Riddle]]] = []
        for frame in lexicon.riddles:
            free: list[Riddle] = []
            held: list[Riddle] = []
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
                    (held if self.is_held(riddle.combination) else free).append(riddle)
            if free:
                self.frames.append((frame, free, held))

    def is_held(self, combination: tuple[str, str, str]) -> bool:
        """Whether a pair of nouns is kept for the test."""
        return is_held(combination, self.seed, self.held_share)

    def draw(self, rng: random.Random, held: bool = False) -> Riddle | None:
        """A scene; None if the sampled verb has no held-out one."""
        # The square root lets small frames occur without repeating them too often.
        weights = [len(held_out if held else free) ** 0.5 for _, free, held_out in self.frames]
        _, free, held_scenes = rng.choices(self.frames, weights)[0]
        scenes = held_scenes if held else free
        return rng.choice(scenes) if scenes else None

    def tell(self, riddle: Riddle, rng: random.Random, means_subject: bool) -> Telling:
        """One formulation of a scene."""
        frame = riddle.frame
        words = frame.subject_adjectives if means_subject else frame.object_adjectives
        modal, tense = rng.choice(
            ((None, Tense.PAST), (None, Tense.PAST), (Modal.CAN, Tense.PAST), (None, Tense.PRESENT))
        )
        return Telling(modal, tense, rng.choice(words), means_subject)


def sentence(riddle: Riddle, telling: Telling) -> Sentence:
    """The riddle as a meaning."""
    subject = Thing(riddle.subject, Determiner.DEFINITE)
    thing = Thing(riddle.object, Determiner.DEFINITE)
    action = Action(riddle.frame.verb, thing)
    main = Clause(subject, action, telling.tense, Polarity.NOT, telling.modal)
    meant = Anaphor(subject if telling.means_subject else thing)
    reason = Clause(meant, Quality(telling.adjective, Degree.TOO), telling.tense)
    return Sentence(main, subordinate=Subordinate(Link.BECAUSE, reason))


def is_held(combination: tuple[str, str, str], seed: int, share: float) -> bool:
    """Whether ``seed`` holds a combination out; about ``share`` of all are."""
    key = "|".join((*combination, str(seed))).encode()
    return zlib.crc32(key) % 10_000 < share * 10_000
