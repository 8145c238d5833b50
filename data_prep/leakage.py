"""Count sentences of `valid` and of the test sets that occur in the training text.

Each sentence of these sets, source or target, is compared with the training text of its language:

- *exact*: the normalised sentence equals a training sentence;
- *near*: at least 70 % of the 8-grams of the sentence occur in the training text, or the sentence
  has fewer than 8 words and equals a training sentence. Texts are compared as lower-case words,
  without punctuation and digits. This is the rule of Chowdhery et al. 2022 (PaLM, section 8). In
  scripts without blanks, each character is a word, and n-grams have 16 of them. Exact sentences are
  near, too, unless they contain no word.

A pair is *exact* if it equals a training pair.

The training text is read once, line by line. Memory holds the test sentences, a number for each of
their words and 17 bytes for each of their 8-grams. Most training lines cost one look-up per word,
because 8-grams with a word that no test sentence contains are not hashed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.cleaned_text import CleanedText
from data_prep.executors import map_jobs
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN
from nmt.base.errors import UserError
from nmt.base.files import iterate_lines, read_lines, read_record, write_json
from nmt.base.languages import is_unspaced, unspaced_characters
from nmt.config import PrepareConfig

LEAKAGE_FILE = "leakage.json"

LEAKAGE_VERSION = 5
"""Raise it whenever counts change: stored counts of other versions are not used."""

NGRAM_WORDS = 8
NGRAM_CHARACTERS = 16
NEAR_SHARE = 0.7

_CHUNK_LINES = 10_000

# Marks are parts of words, such as vowel signs; but the marks of an emoji or a digit are not.
_NO_LETTERS = r"[^\p{L}\p{M}\p{Nl}\p{No}]+\p{M}*"


def words_of(texts: Sequence[str]) -> pa.ListArray:
    """The lower-case words (sequences of letters) of each text; "" for a text without words."""
    lower = pc.utf8_lower(pa.array(texts, pa.string()))
    letters = pc.replace_substring_regex(lower, _NO_LETTERS, " ")
    unspaced = rf"([{unspaced_characters()}]\p{{M}}*)"
    letters = pc.replace_substring_regex(letters, unspaced, r" \1 ")
    return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(letters))


class _NGrams:
    """The n-grams of test sentences in one language, and which of them the training text contains.

    A word is represented by a random odd 64-bit number, or by 0 if no test sentence has it. The
    hash of an n-gram is the sum of these numbers, each times an odd constant for its index
    (mod 2^64). As all of these are odd, the lowest bit is not random, but the other 63 are. With a
    million n-grams of tests and a billion of training text, the probability of any collision is 1
    in 9,000.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        are_unspaced = 2 * sum(map(is_unspaced, sentences)) > len(sentences)
        self._size = NGRAM_CHARACTERS if are_unspaced else NGRAM_WORDS
        generator = np.random.default_rng(1)
        words = words_of(sentences)
        # In the order of the first occurrence; "" stands for a text without words.
        distinct = words.flatten().unique()
        self._words = distinct.filter(pc.not_equal(distinct, ""))
        self._numbers, self._factors = (
            generator.integers(2**64, size=size, dtype=np.uint64) | np.uint64(1)
            for size in (len(self._words), self._size)
        )
        ngrams, sentence_of = self._hashes(sentences)
        ends = np.searchsorted(sentence_of, range(1, len(sentences)))
        self._ngrams_of = np.split(ngrams, ends)
        self._distinct = np.unique(ngrams)
        self.is_found = np.zeros(len(self._distinct), dtype=bool)

    def read(self, lines: Sequence[str]) -> None:
        """Mark the n-grams that training lines contain."""
        ngrams, _ = self._hashes(lines)
        indices = np.searchsorted(self._distinct, ngrams).clip(max=len(self._distinct) - 1)
        self.is_found[indices[self._distinct[indices] == ngrams]] = True

    def near(self) -> list[bool]:
        """Return for each sentence whether enough of its n-grams were found."""
        shares = (
            self.is_found[np.searchsorted(self._distinct, ngrams)].mean() if len(ngrams) else 0.0
            for ngrams in self._ngrams_of
        )
        return [bool(share >= NEAR_SHARE) for share in shares]

    def _hashes(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of the n-grams of all lines, and the index of the line of each.

        A short line is padded to one n-gram. N-grams with a word that no test sentence has are
        left out. `lines` must not be empty.
        """
        words = words_of(lines)
        lengths = pc.list_value_length(words).to_numpy()
        # A 0 after each line, so that no n-gram continues in the next line.
        ends = np.cumsum(np.maximum(lengths, self._size) + 1)
        row = np.zeros(int(ends[-1]), dtype=np.uint64)
        starts = np.concatenate(([0], ends[:-1]))
        # Padding, because a short line has to equal a whole line and not a part of a longer one.
        for offset in range(self._size):
            row[starts[lengths <= offset] + offset] = _PADDING
        known = pc.index_in(words.flatten(), value_set=self._words).fill_null(-1).to_numpy()
        words_before = np.cumsum(lengths) - lengths
        indices = np.arange(len(known)) + np.repeat(starts - words_before, lengths)
        row[indices] = np.append(self._numbers, np.uint64(0))[known]  # index -1 is the 0
        windows = np.lib.stride_tricks.sliding_window_view(row, self._size)
        positions = np.flatnonzero(_windows_without_zero(row, self._size))
        hashes = (windows[positions] * self._factors).sum(axis=1, dtype=np.uint64)
        return hashes, np.searchsorted(starts, positions, side="right") - 1


_PADDING = 2
"""Number that pads a short line; the numbers of words are odd."""


def _windows_without_zero(row: np.ndarray, size: int) -> np.ndarray:
    """Return for each window of `size` numbers of `row` whether it has no 0."""
    zeros = np.concatenate(([0], np.cumsum(row == 0)))
    return zeros[size:] == zeros[:-size]


_Tests = dict[str, tuple[list[str], list[str]]]
"""Sources and references of each test set, aligned."""


class _TestSide:
    """One language of all test sets, concatenated."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        self.ngrams = _NGrams(sentences)
        self.is_exact = np.zeros(len(sentences), dtype=bool)
        self._indices: dict[str, list[int]] = {}
        for index, sentence in enumerate(sentences):
            self._indices.setdefault(sentence, []).append(index)

    def read(self, lines: list[str]) -> None:
        """Mark the sentences and n-grams that training lines contain."""
        for line in lines:
            for index in self._indices.get(line, ()):
                self.is_exact[index] = True
        self.ngrams.read(lines)


@dataclass(frozen=True)
class _Found:
    """What a part of the training text contains.

    Attributes:
        exact: for source and target, whether each test sentence was found.
        ngrams: for source and target, whether each distinct n-gram of the tests was found.
        pairs: the test pairs that were found.
    """

    exact: list[np.ndarray]
    ngrams: list[np.ndarray]
    pairs: set[tuple[str, str]]


class LeakageCount:
    """Finds test sentences in the training text; `add` merges what other processes found."""

    def __init__(self, tests: _Tests) -> None:
        self._tests = tests
        self._sides = [
            _TestSide([line for sides in tests.values() for line in sides[side]]) for side in (0, 1)
        ]
        self._pairs = set(zip(*(side.sentences for side in self._sides), strict=True))
        self._found_pairs: set[tuple[str, str]] = set()

    def read(self, chunk: tuple[list[str], list[str]]) -> None:
        """Mark what aligned training lines contain."""
        for side, lines in zip(self._sides, chunk, strict=True):
            side.read(lines)
        self._found_pairs.update(pair for pair in zip(*chunk, strict=True) if pair in self._pairs)

    def found(self) -> _Found:
        """Return what the lines read so far contain."""
        exact = [side.is_exact for side in self._sides]
        return _Found(exact, [side.ngrams.is_found for side in self._sides], self._found_pairs)

    def add(self, found: _Found) -> None:
        """Add what another part of the training text contains."""
        for side, exact, ngrams in zip(self._sides, found.exact, found.ngrams, strict=True):
            side.is_exact |= exact
            side.ngrams.is_found |= ngrams
        self._found_pairs |= found.pairs

    def counts(self) -> dict[str, dict[str, Any]]:
        """Return the counts of each split, as in `nmt.data.corpus.Leakage`."""
        nears = [side.ngrams.near() for side in self._sides]
        counts: dict[str, dict[str, Any]] = {}
        start = 0
        for split, sides in self._tests.items():
            of_split = slice(start, start + len(sides[0]))
            start = of_split.stop
            counts[split] = {"sentences": len(sides[0])}
            for name, side, near in zip(("source", "target"), self._sides, nears, strict=True):
                exact = int(side.is_exact[of_split].sum())
                counts[split][name] = {"exact": exact, "near": sum(near[of_split])}
            exact_pairs = sum(pair in self._found_pairs for pair in zip(*sides, strict=True))
            counts[split]["pairs"] = {"exact": exact_pairs}
        return counts


@dataclass(frozen=True)
class _PartJob:
    """A part of the training text to compare with the test sets."""

    tests: _Tests
    paths: list[Path]
    tags: Sequence[str]


def _without_tags(lines: list[str], tags: Sequence[str]) -> list[str]:
    """Remove a tag at the beginning of each line."""
    if not tags:
        return lines
    parts = (line.partition(" ") for line in lines)
    return [rest if first in tags else first + space + rest for first, space, rest in parts]


def _read_part(job: _PartJob) -> _Found:
    count = LeakageCount(job.tests)
    source, target = map(iterate_lines, job.paths)
    while lines := list(islice(source, _CHUNK_LINES)):
        count.read((_without_tags(lines, job.tags), list(islice(target, _CHUNK_LINES))))
    return count.found()


@dataclass(frozen=True)
class _Stored:
    """Contents of `leakage.json`."""

    version: int
    splits: dict[str, dict[str, Any]]


def leakage_of(
    text: CleanedText,
    reporter: Reporter,
    work: PrepareConfig,
    jobs_folder: Path,
    tags: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """Count the leakage of cleaned text, or read the counts from `leakage.json` in its folder.

    Args:
        text: the cleaned text.
        reporter: shows progress.
        work: where the parts of the text are read.
        jobs_folder: for files of SLURM jobs.
        tags: the tags of `corpus.sources`, which are not compared.
    """
    path = text.folder / LEAKAGE_FILE
    if path.is_file():
        try:
            stored = read_record(path, _Stored, "counting again")
            if stored.version == LEAKAGE_VERSION:
                return stored.splits
        except UserError as error:
            reporter.print(str(error))
    summary = text.summary()
    source, target = text.languages
    tests = {
        split: (
            _without_tags(read_lines(text.text_folder() / f"{split}.{source}"), tags),
            read_lines(text.text_folder() / f"{split}.{target}"),
        )
        for split in sorted(summary.num_pairs.keys() - {TRAIN})
    }
    count = LeakageCount(tests)
    jobs = [_PartJob(tests, text.part_paths(part), tags) for part in range(len(summary.parts))]
    description = "Looking for test sentences in the training text"
    with reporter.stage(description, sum(summary.parts)) as advance:
        results = map_jobs(_read_part, jobs, work, jobs_folder, len(jobs))
        for num_pairs, found in zip(summary.parts, results, strict=True):
            count.add(found)
            advance(num_pairs)
    counts = count.counts()
    write_json(path, {"version": LEAKAGE_VERSION, "splits": counts})
    return counts
