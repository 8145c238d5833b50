"""Generate the phrasebook corpus; a seed determines the pairs of every split."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from data_prep.phrasebook import english, french, german, riddles
from data_prep.phrasebook.combinations import combinations
from data_prep.phrasebook.entries import Lexicon
from data_prep.phrasebook.joining import SentenceComposer
from data_prep.phrasebook.lexicon import load_lexicon
from data_prep.phrasebook.meaning import Realisation, Sentence
from data_prep.phrasebook.phenomena import meaning_phenomena

REALISERS = {"en": english.realise, "de": german.realise, "fr": french.realise}
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
HELD_OUT_SHARE = 0.05
"""Share of the combinations of two words that are held out."""
RIDDLE_SHARE = 0.18
"""Share of riddles among the ordinary pairs."""
MIN_WORDS, MAX_WORDS = 3, 18
MAX_RIDDLES = 500
"""Largest number of minimal pairs; about 1,300 (French) and 1,800 (German) exist."""
ATTEMPTS_PER_PAIR = 8
"""Every split except train has only words of the training split, if possible: a split of n pairs,
or n minimal pairs, has 8 n attempts to find them. After these, other words are allowed."""


@dataclass(frozen=True)
class PhrasebookPair:
    """A sentence in two languages, and the phenomena that it shows."""

    texts: dict[str, str]
    """The sentence by language."""
    phenomena: tuple[str, ...]
    """Names of the phenomena that either side shows."""
    must_contain: dict[str, tuple[str, ...]]
    """By language: words of every correct translation, at word boundaries, case-sensitive."""
    must_not_contain: dict[str, tuple[str, ...]]
    """By language: words that only wrong translations have."""
    group: str
    """Id that the sentences of a minimal pair share, or the empty string."""


def generate(
    languages: tuple[str, str], num_train: int, num_valid: int, num_test: int, seed: int
) -> dict[str, list[PhrasebookPair]]:
    """Generate a corpus.

    Args:
        languages: Source and target: English with German or French, in either order.
        num_train: Number of training pairs.
        num_valid: Number of validation pairs.
        num_test: Number of test pairs; the held-out split has a quarter as many pairs, and the
            riddle split a tenth as many minimal pairs, at most `MAX_RIDDLES`.
        seed: Determines the corpus.

    Returns:
        The splits train, valid, test, held_out and riddle; no sentence occurs twice in them.

    Raises:
        ValueError: If the direction is not offered or a number is negative.
    """
    if tuple(languages) not in DIRECTIONS:
        offered = ", ".join("-".join(pair) for pair in DIRECTIONS)
        raise ValueError(f"languages={'-'.join(languages)}: the phrasebook offers {offered}")
    if min(num_train, num_valid, num_test) < 0:
        raise ValueError(f"{num_train=}, {num_valid=}, {num_test=}: none may be negative")
    generator = _Generator(load_lexicon(), languages, seed)
    return generator.splits(num_train, num_valid, num_test)


class _Generator:
    """Generates the splits; keeps all earlier sentences and the words of the training split."""

    def __init__(self, lexicon: Lexicon, languages: tuple[str, str], seed: int) -> None:
        self.languages, self.seed = languages, seed
        self.foreign = languages[1] if languages[0] == "en" else languages[0]
        self.rng = random.Random(f"{self.foreign} {seed}")
        self.composer = SentenceComposer(lexicon, self.foreign, self.rng)
        self.riddle_sampler = riddles.RiddleSampler(lexicon, self.foreign, seed, HELD_OUT_SHARE)
        self.used_texts: set[str] = set()
        self.training_words: set[str] = set()
        self.held_out: list[PhrasebookPair] = []
        self.max_held_out = 0
        self.kinds = {
            self.composer.statement: 30.0,
            self.composer.polar_question: 7.0,
            self.composer.word_question: 6.0,
            self.composer.imperative: 5.0,
            self.composer.quality: 9.0,
            self.composer.being: 7.0,
            self.composer.reason: 9.0,
            self.composer.condition: 6.0,
            self.composer.report: 6.0,
            self.composer.relative: 6.0,
            self.composer.coordination: 3.0,
        }

    def splits(
        self, num_train: int, num_valid: int, num_test: int
    ) -> dict[str, list[PhrasebookPair]]:
        """Generate the splits in an order that keeps them disjoint."""
        num_held_out = max(1, num_test // 4) if num_test else 0
        num_riddles = min(max(1, num_test // 10), MAX_RIDDLES) if num_test else 0
        # More than are needed: some will contain words that are not in the training split.
        self.max_held_out = num_held_out + num_held_out // 2 + 4
        stream = self._stream()
        train = [next(stream) for _ in range(num_train)]
        for pair in train:
            self.training_words.update(_words(pair))
        return {
            "train": train,
            "valid": self._with_training_words(stream, num_valid),
            "test": self._with_training_words(stream, num_test),
            "held_out": self._with_training_words(self._held_out(stream), num_held_out),
            "riddle": self._riddle_split(num_riddles),
        }

    def _with_training_words(
        self, pairs: Iterator[PhrasebookPair], number: int
    ) -> list[PhrasebookPair]:
        """Return pairs whose words all occur in training; after too many attempts, any pairs."""
        found: list[PhrasebookPair] = []
        attempts = ATTEMPTS_PER_PAIR * number
        while len(found) < number:
            pair = next(pairs)
            attempts -= 1
            if attempts < 0 or self.training_words.issuperset(_words(pair)):
                found.append(pair)
        return found

    def _held_out(self, stream: Iterator[PhrasebookPair]) -> Iterator[PhrasebookPair]:
        """Yield pairs with a held-out combination; generate more when none are left."""
        self.max_held_out = 1 << 60
        while True:
            while not self.held_out:
                next(stream)
            yield self.held_out.pop(0)

    def _stream(self) -> Iterator[PhrasebookPair]:
        """Yield ordinary pairs, each sentence once; store pairs with a held-out combination."""
        while True:
            is_riddle = self.rng.random() < RIDDLE_SHARE
            meaning = self._riddle() if is_riddle else self.composer.weighted(self.kinds)()
            is_held_out = any(
                riddles.is_held_out(combination, self.seed, HELD_OUT_SHARE)
                for combination in combinations(meaning)
            )
            if is_held_out and (is_riddle or len(self.held_out) >= self.max_held_out):
                continue
            pair = self._pair(meaning, is_riddle)
            if pair is None:
                continue
            if is_held_out:
                self.held_out.append(pair)
            else:
                yield pair

    def _riddle(self) -> Sentence:
        riddle = None
        while riddle is None:
            riddle = self.riddle_sampler.sample(self.rng)
        wording = self.riddle_sampler.sample_wording(riddle, self.rng, self.rng.random() < 0.5)
        return riddles.sentence(riddle, wording)

    def _pair(self, meaning: Sentence, is_riddle: bool, group: str = "") -> PhrasebookPair | None:
        """Express a meaning in both languages; None if a sentence is used or has a wrong length."""
        realisations = {language: REALISERS[language](meaning) for language in self.languages}
        texts = {language: found.text for language, found in realisations.items()}
        if not self.used_texts.isdisjoint(texts.values()):
            return None
        lengths = [text.count(" ") + 1 for text in texts.values()]
        if min(lengths) < MIN_WORDS or max(lengths) > MAX_WORDS:
            return None
        self.used_texts.update(texts.values())
        phenomena = dict.fromkeys(meaning_phenomena(meaning))
        for found in realisations.values():
            phenomena |= dict.fromkeys(name for name, _ in found.shown)
        must_not_contain: dict[str, tuple[str, ...]] = {}
        if is_riddle:
            phenomena["riddle"] = None
            must_not_contain[self.foreign] = _wrong_pronouns(self.foreign, texts[self.foreign])
        must_contain = {language: _required(found) for language, found in realisations.items()}
        return PhrasebookPair(texts, tuple(phenomena), must_contain, must_not_contain, group)

    def _riddle_split(self, number: int) -> list[PhrasebookPair]:
        """Return minimal pairs with nouns that no riddle of the training split combines."""
        split: list[PhrasebookPair] = []
        attempts = ATTEMPTS_PER_PAIR * number
        while len(split) < 2 * number:
            attempts -= 1
            riddle = self.riddle_sampler.sample(self.rng, held_out=True)
            if riddle is None:
                continue
            pairs = self._minimal_pair(riddle, f"riddle-{len(split) // 2:04d}")
            if len(pairs) < 2:
                continue
            has_new_words = not all(
                self.training_words.issuperset(words) for words in map(_words, pairs)
            )
            if has_new_words and attempts >= 0:
                self.used_texts.difference_update(t for pair in pairs for t in pair.texts.values())
                continue
            split += pairs
        return split

    def _minimal_pair(self, riddle: riddles.Riddle, group: str) -> list[PhrasebookPair]:
        first = self.riddle_sampler.sample_wording(riddle, self.rng, means_subject=True)
        other = self.riddle_sampler.sample_wording(riddle, self.rng, means_subject=False)
        second = riddles.Wording(first.modal, first.tense, other.adjective, False)
        meanings = (riddles.sentence(riddle, wording) for wording in (first, second))
        pairs = (self._pair(meaning, is_riddle=True, group=group) for meaning in meanings)
        return [pair for pair in pairs if pair is not None]


def _words(pair: PhrasebookPair) -> set[str]:
    return {word for text in pair.texts.values() for word in re.findall(r"[\w'-]+", text.lower())}


RIDDLE_STARTS = {
    "de": ("weil er", "weil sie", "weil es"),
    "fr": ("parce qu'il", "parce qu'elle"),
}


def _wrong_pronouns(language: str, text: str) -> tuple[str, ...]:
    return tuple(start for start in RIDDLE_STARTS[language] if not has_words(text, start))


def has_words(text: str, words: str) -> bool:
    """Return whether ``text`` contains ``words`` at word boundaries."""
    # Not a regular expression: compiling one for each phrase would take a third of the time.
    start = text.find(words)
    while start >= 0:
        neighbours = text[:start][-1:] + text[start + len(words) :][:1]
        if not any(character.isalnum() or character == "_" for character in neighbours):
            return True
        start = text.find(words, start + 1)
    return False


def _required(realisation: Realisation) -> tuple[str, ...]:
    """Return the words that show the phenomena, capitalised as in the sentence."""
    found: dict[str, None] = {}
    for _, words in realisation.shown:
        for form in (words, words[:1].upper() + words[1:]):
            if form and has_words(realisation.text, form):
                found[form] = None
                break
    return tuple(found)
