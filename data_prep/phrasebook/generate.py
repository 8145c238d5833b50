"""Generate the phrasebook corpus; a seed determines the pairs of every split."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from data_prep.phrasebook import english, french, german, riddles
from data_prep.phrasebook.combinations import combinations
from data_prep.phrasebook.entries import Lexicon
from data_prep.phrasebook.joining import Joiner
from data_prep.phrasebook.lexicon import load_lexicon
from data_prep.phrasebook.meaning import Realisation, Sentence
from data_prep.phrasebook.phenomena import meaning_phenomena

REALISERS = {"en": english.realise, "de": german.realise, "fr": french.realise}
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
HELD_SHARE = 0.05
"""Share of the combinations of known words that are held out."""
RIDDLE_SHARE = 0.09
"""Share of riddles among the ordinary pairs."""
MIN_WORDS, MAX_WORDS = 3, 18
PATIENCE = 8
"""Attempts per pair before words unseen in training are allowed, in very small corpora."""


@dataclass(frozen=True)
class PhrasebookPair:
    """A sentence in two languages, and the grammar that it shows."""

    texts: dict[str, str]
    """The sentence by language."""
    phenomena: tuple[str, ...]
    """Names of the grammar that either side shows."""
    must_contain: dict[str, tuple[str, ...]]
    """By language: words that a right translation has, at word boundaries, case-sensitive."""
    must_not_contain: dict[str, tuple[str, ...]]
    """By language: words that only a wrong translation has."""
    group: str
    """The minimal pair it belongs to, or the empty string."""


def generate(
    languages: tuple[str, str], num_train: int, num_valid: int, num_test: int, seed: int
) -> dict[str, list[PhrasebookPair]]:
    """Generate a corpus.

    Args:
        languages: Source and target: English with German or French, in either order.
        num_train: Number of training pairs.
        num_valid: Number of validation pairs.
        num_test: Number of test pairs; the held-out split has a quarter and the riddle split a
            tenth as many minimal pairs.
        seed: Determines the corpus.

    Returns:
        The splits train, valid, test, held_out and riddle. A sentence of either language occurs
        once in all of them.

    Raises:
        ValueError: If the languages are not offered or a number is negative.
    """
    if tuple(languages) not in DIRECTIONS:
        offered = ", ".join("-".join(pair) for pair in DIRECTIONS)
        raise ValueError(f"languages={'-'.join(languages)}: the phrasebook offers {offered}")
    if min(num_train, num_valid, num_test) < 0:
        raise ValueError(f"{num_train=}, {num_valid=}, {num_test=}: none may be negative")
    drawing = _Drawing(load_lexicon(), languages, seed)
    return drawing.splits(num_train, num_valid, num_test)


class _Drawing:
    """The state of generation: earlier sentences, and the words of the training split."""

    def __init__(self, lexicon: Lexicon, languages: tuple[str, str], seed: int) -> None:
        self.languages, self.seed = languages, seed
        self.foreign = languages[1] if languages[0] == "en" else languages[0]
        self.rng = random.Random(f"{self.foreign} {seed}")
        self.joiner = Joiner(lexicon, self.foreign, self.rng)
        self.riddle_maker = riddles.RiddleMaker(lexicon, self.foreign, seed, HELD_SHARE)
        self.said: set[str] = set()
        self.known: set[str] = set()
        self.held: list[PhrasebookPair] = []
        self.held_wanted = 0
        self.kinds = {
            self.joiner.statement: 30.0,
            self.joiner.polar_question: 7.0,
            self.joiner.word_question: 6.0,
            self.joiner.imperative: 5.0,
            self.joiner.quality: 9.0,
            self.joiner.being: 7.0,
            self.joiner.reason: 9.0,
            self.joiner.condition: 6.0,
            self.joiner.report: 6.0,
            self.joiner.relative: 6.0,
            self.joiner.coordination: 3.0,
        }

    def splits(
        self, num_train: int, num_valid: int, num_test: int
    ) -> dict[str, list[PhrasebookPair]]:
        """Generate the splits in an order that keeps them disjoint."""
        num_held = max(1, num_test // 4) if num_test else 0
        num_riddles = max(1, num_test // 10) if num_test else 0
        # More than are wanted: some will hold words that training never shows.
        self.held_wanted = num_held + num_held // 2 + 4
        stream = self._stream()
        train = [next(stream) for _ in range(num_train)]
        for pair in train:
            self.known.update(_words(pair))
        valid = list(self._known_only(stream, num_valid))
        test = list(self._known_only(stream, num_test))
        held = list(self._known_only(self._held(stream), num_held))
        riddle = self._riddle_split(num_riddles)
        return {"train": train, "valid": valid, "test": test, "held_out": held, "riddle": riddle}

    def _known_only(self, pairs: Iterator[PhrasebookPair], number: int) -> Iterator[PhrasebookPair]:
        """The first ``number`` pairs whose words all occur in training."""
        patience = PATIENCE * number
        while number > 0:
            pair = next(pairs)
            patience -= 1
            if patience < 0 or self.known.issuperset(_words(pair)):
                number -= 1
                yield pair

    def _held(self, stream: Iterator[PhrasebookPair]) -> Iterator[PhrasebookPair]:
        """Pairs with a combination that is held out, drawing on when they run short."""
        self.held_wanted = 1 << 60
        while True:
            while not self.held:
                next(stream)
            yield self.held.pop(0)

    def _stream(self) -> Iterator[PhrasebookPair]:
        """Ordinary pairs, each sentence once; held-out ones are set aside on the way."""
        while True:
            is_riddle = self.rng.random() < RIDDLE_SHARE
            meaning, markers = self._riddle() if is_riddle else (self._sentence(), None)
            held = any(
                riddles.is_held(combination, self.seed, HELD_SHARE)
                for combination in combinations(meaning)
            )
            if held and (is_riddle or len(self.held) >= self.held_wanted):
                continue
            pair = self._pair(meaning, markers)
            if pair is None:
                continue
            if held:
                self.held.append(pair)
            else:
                yield pair

    def _sentence(self) -> Sentence:
        return self.joiner.weighted(self.kinds)()

    def _riddle(self) -> tuple[Sentence, riddles.Telling]:
        riddle = None
        while riddle is None:
            riddle = self.riddle_maker.draw(self.rng)
        telling = self.riddle_maker.tell(riddle, self.rng, self.rng.random() < 0.5)
        return riddles.sentence(riddle, telling), telling

    def _pair(
        self, meaning: Sentence, telling: riddles.Telling | None, group: str = ""
    ) -> PhrasebookPair | None:
        """Realise a meaning in both languages; None if either sentence exists already."""
        spoken = {language: REALISERS[language](meaning) for language in self.languages}
        texts = {language: realisation.text for language, realisation in spoken.items()}
        if not self.said.isdisjoint(texts.values()):
            return None
        lengths = [text.count(" ") + 1 for text in texts.values()]
        if min(lengths) < MIN_WORDS or max(lengths) > MAX_WORDS:
            return None
        self.said.update(texts.values())
        phenomena = dict.fromkeys(meaning_phenomena(meaning))
        phenomena |= dict.fromkeys(name for said in spoken.values() for name, _ in said.shown)
        wrong: dict[str, tuple[str, ...]] = {}
        if telling is not None:
            phenomena["riddle"] = None
            wrong = {self.foreign: _wrong_pronouns(self.foreign, texts[self.foreign])}
        must = {language: _markers(realisation) for language, realisation in spoken.items()}
        return PhrasebookPair(texts, tuple(phenomena), must, wrong, group)

    def _riddle_split(self, number: int) -> list[PhrasebookPair]:
        """Minimal pairs over nouns that no riddle of the training has put together."""
        split: list[PhrasebookPair] = []
        patience = PATIENCE * number
        while len(split) < 2 * number:
            patience -= 1
            riddle = self.riddle_maker.draw(self.rng, held=True)
            if riddle is None:
                continue
            pairs = self._minimal_pair(riddle, f"riddle-{len(split) // 2:04d}")
            if len(pairs) < 2:
                continue
            unknown = not all(self.known.issuperset(_words(pair)) for pair in pairs)
            if unknown and patience >= 0:
                self.said.difference_update(t for pair in pairs for t in pair.texts.values())
                continue
            split += pairs
        return split

    def _minimal_pair(self, riddle: riddles.Riddle, group: str) -> list[PhrasebookPair]:
        first = self.riddle_maker.tell(riddle, self.rng, means_subject=True)
        other = self.riddle_maker.tell(riddle, self.rng, means_subject=False)
        second = riddles.Telling(first.modal, first.tense, other.adjective, False)
        pairs = []
        for telling in (first, second):
            pair = self._pair(riddles.sentence(riddle, telling), telling, group)
            if pair is not None:
                pairs.append(pair)
        return pairs


def _words(pair: PhrasebookPair) -> set[str]:
    return {word for text in pair.texts.values() for word in re.findall(r"[\w'-]+", text.lower())}


RIDDLE_STARTS = {
    "de": ("weil er", "weil sie", "weil es"),
    "fr": ("parce qu'il", "parce qu'elle"),
}


def _wrong_pronouns(language: str, text: str) -> tuple[str, ...]:
    return tuple(start for start in RIDDLE_STARTS[language] if not has_words(text, start))


def has_words(text: str, words: str) -> bool:
    """Whether ``text`` contains ``words`` at word boundaries."""
    # Not a regular expression: compiling one for each phrase took a third of the generation.
    start = text.find(words)
    while start >= 0:
        neighbours = text[:start][-1:] + text[start + len(words) :][:1]
        if not any(character.isalnum() or character == "_" for character in neighbours):
            return True
        start = text.find(words, start + 1)
    return False


def _markers(realisation: Realisation) -> tuple[str, ...]:
    """The shown words as in the sentence, whose first letter is a capital."""
    markers: dict[str, None] = {}
    for _, words in realisation.shown:
        for form in (words, words[:1].upper() + words[1:]):
            if form and has_words(realisation.text, form):
                markers[form] = None
                break
    return tuple(markers)
