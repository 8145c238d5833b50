"""How much of the test sets the training text holds: a score on what was learnt by heart is none.

Each side of a test set is looked up in the training text of its language by itself:

- *exact*: the sentence is a training sentence, character by character (both are normalised as
  `data_prep.clean` does it);
- *near*: as words alone (lower-cased, punctuation and digits dropped) at least 70 % of its runs of
  8 words stand somewhere in the training text, or, when it has fewer than 8 words, the whole of it
  is a training sentence. That is the rule of Chowdhery et al. 2022 (PaLM, section 8). Exact ones
  are near, too, unless they hold no word at all.

A pair is *exact* when both of its sides are one training pair.

The training text is read once, line by line. Only what the test side holds is kept in memory: its
sentences, its words as numbers, and a hash of 8 bytes a run. A training line costs a look-up a
word, and most end there: a word that no test sentence has breaks every run that it is in.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from data_prep.cleaned_text import CleanedText
from data_prep.progress import Advance, Reporter
from data_prep.protocol import TRAIN
from nmt.files import iterate_lines, read_json, read_lines, write_json

LEAKAGE_FILE = "leakage.json"

LEAKAGE_VERSION = 1
"""Raise it whenever the counts would change: stored ones are counted again."""

RUN_WORDS = 8
NEAR_SHARE = 0.7

_CHUNK_LINES = 10_000

_WORD = re.compile(r"[^\W\d_]+")


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased: runs of letters."""
    return _WORD.findall(text.lower())


class _Runs:
    """Which runs of test words the training text of one language holds.

    A word is a random 64-bit number, 0 when no test sentence has it; a run is a sum of its words'
    numbers, each times an odd constant for its place (mod 2^64). Two different ones among a million
    test runs and a billion training runs agree by chance in one case of 20,000.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        chance = random.Random(1)
        self._numbers: dict[str, int] = {}
        lines = [words_of(sentence) for sentence in sentences]
        for word in (word for words in lines for word in words):
            if word not in self._numbers:
                self._numbers[word] = chance.getrandbits(64) | 1
        self._factors = np.array(
            [chance.getrandbits(64) | 1 for _ in range(RUN_WORDS)], dtype=np.uint64
        )
        self._runs_of = [self._runs([words]) for words in lines]
        self._known = np.unique(np.concatenate([np.zeros(0, np.uint64), *self._runs_of]))
        self._is_found = np.zeros(len(self._known), dtype=bool)

    def read(self, lines: Iterable[str]) -> None:
        """Mark the runs that training lines hold."""
        runs = self._runs([words_of(line) for line in lines])
        if not len(runs) or not len(self._known):
            return
        places = np.searchsorted(self._known, runs).clip(max=len(self._known) - 1)
        self._is_found[places[self._known[places] == runs]] = True

    def near(self) -> list[bool]:
        """Of each sentence, whether enough of its runs were found."""
        shares = (
            self._is_found[np.searchsorted(self._known, runs)].mean() if len(runs) else 0.0
            for runs in self._runs_of
        )
        return [bool(share >= NEAR_SHARE) for share in shares]

    def _runs(self, lines: Sequence[list[str]]) -> np.ndarray:
        """Hashes of the runs of all lines; a short line is one run, its last places empty.

        Runs with a word that no test sentence has are left out.
        """
        get = self._numbers.get
        numbers: list[int] = []
        for words in lines:
            numbers += [get(word, 0) for word in words]
            if 0 < len(words) < RUN_WORDS:
                # So a short line is equal to a whole line alone, never to a part of a longer one.
                numbers += [_NOTHING] * (RUN_WORDS - len(words))
            numbers.append(0)  # no run goes over the end of a line
        row = np.array(numbers, dtype=np.uint64)
        if len(row) < RUN_WORDS:
            return np.zeros(0, dtype=np.uint64)
        windows = np.lib.stride_tricks.sliding_window_view(row, RUN_WORDS)
        whole = windows[_runs_without_zero(row)]
        return (whole * self._factors).sum(axis=1, dtype=np.uint64)


_NOTHING = 2
"""Fills the last places of a short line; words' numbers are odd."""


def _runs_without_zero(row: np.ndarray) -> np.ndarray:
    """(len(row) - RUN_WORDS + 1,) bool: windows that hold no 0."""
    zeros = np.concatenate(([0], np.cumsum(row == 0)))
    result: np.ndarray = zeros[RUN_WORDS:] == zeros[:-RUN_WORDS]
    return result


@dataclass
class _TestSide:
    """One language of all test sets, end to end."""

    sentences: list[str]
    runs: _Runs = field(init=False)
    places: dict[str, list[int]] = field(init=False)
    is_exact: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.runs = _Runs(self.sentences)
        self.is_exact = [False] * len(self.sentences)
        self.places = {}
        for place, sentence in enumerate(self.sentences):
            self.places.setdefault(sentence, []).append(place)

    def read(self, lines: list[str]) -> None:
        """Look up training lines."""
        for line in lines:
            for place in self.places.get(line, ()):
                self.is_exact[place] = True
        self.runs.read(lines)


def count_leakage(
    tests: dict[str, tuple[list[str], list[str]]],
    chunks: Iterable[tuple[list[str], list[str]]],
    advance: Advance,
) -> dict[str, dict[str, Any]]:
    """How many sentences of each test set the training text holds.

    Args:
        tests: sources and references by split.
        chunks: aligned training lines, some at a time.
        advance: called with the number of pairs just read.

    Returns:
        By split `{"sentences", "source": {"exact", "near"}, "target": {…}, "pairs": {"exact"}}`.
    """
    sides = [_TestSide([line for pair in tests.values() for line in pair[s]]) for s in (0, 1)]
    pairs = set(zip(sides[0].sentences, sides[1].sentences, strict=True))
    found_pairs: set[tuple[str, str]] = set()
    for chunk in chunks:
        for side, lines in zip(sides, chunk, strict=True):
            side.read(lines)
        found_pairs.update(pair for pair in zip(*chunk, strict=True) if pair in pairs)
        advance(len(chunk[0]))
    nears = [side.runs.near() for side in sides]
    counts: dict[str, dict[str, Any]] = {}
    start = 0
    for split, pair in tests.items():
        part = slice(start, start + len(pair[0]))
        start = part.stop
        counts[split] = {"sentences": len(pair[0])}
        for name, side, near in zip(("source", "target"), sides, nears, strict=True):
            exact = sum(side.is_exact[part])
            counts[split][name] = {"exact": exact, "near": sum(near[part])}
        exact_pairs = sum(both in found_pairs for both in zip(*pair, strict=True))
        counts[split]["pairs"] = {"exact": exact_pairs}
    return counts


def leakage_of(text: CleanedText, reporter: Reporter) -> dict[str, dict[str, Any]]:
    """The leakage of cleaned text, counted once and kept in `leakage.json` beside it."""
    path = text.folder / LEAKAGE_FILE
    if path.is_file():
        stored = read_json(path)
        if stored["version"] == LEAKAGE_VERSION:
            counts: dict[str, dict[str, Any]] = stored["splits"]
            return counts
    summary = text.summary()
    source, target = text.languages
    tests = {
        split: (
            read_lines(text.text_folder() / f"{split}.{source}"),
            read_lines(text.text_folder() / f"{split}.{target}"),
        )
        for split in sorted(summary.num_pairs.keys() - {TRAIN})
    }
    what = "Looking for test sentences in the training text"
    with reporter.stage(what, sum(summary.parts)) as advance:
        counts = count_leakage(tests, _chunks(text, len(summary.parts)), advance)
    write_json(path, {"version": LEAKAGE_VERSION, "splits": counts})
    return counts


def _chunks(text: CleanedText, num_parts: int) -> Iterator[tuple[list[str], list[str]]]:
    for part in range(num_parts):
        paths = [text.part_path(part, language) for language in text.languages]
        source, target = map(iterate_lines, paths)
        while lines := list(islice(source, _CHUNK_LINES)):
            yield lines, list(islice(target, _CHUNK_LINES))
