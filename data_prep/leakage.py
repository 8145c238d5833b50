"""Count test sentences that occur in the training text.

Each side of a test set is compared with the training text of its language:

- *exact*: the normalised sentence equals a training sentence;
- *near*: of the sentence as lower-case words, without punctuation and digits, at least 70 % of the
  8-grams occur in the training text; a sentence of fewer than 8 words must equal a training
  sentence. This is the rule of Chowdhery et al. 2022 (PaLM, section 8). Exact sentences are near,
  unless they contain no word.

A pair is *exact* if it equals a training pair.

The training text is read once, line by line. Memory holds the test sentences, a number for each of
their words and 8 bytes for each of their 8-grams. Most training lines cost one look-up per word,
because a word that no test sentence contains ends every 8-gram that it is in.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.cleaned_text import CleanedText
from data_prep.progress import Advance, Reporter
from data_prep.protocol import TRAIN
from nmt.base.errors import UserError
from nmt.base.files import iterate_lines, read_lines, read_record, write_json

LEAKAGE_FILE = "leakage.json"

LEAKAGE_VERSION = 2
"""Raise it whenever counts change: stored counts of other versions are not used."""

NGRAM_WORDS = 8
NEAR_SHARE = 0.7

_CHUNK_LINES = 10_000

_NO_LETTERS = r"[^\p{L}\p{Nl}\p{No}]+"


def words_of(texts: Sequence[str]) -> pa.ListArray:
    """The words of each text (sequences of letters), in lower case; of none, an empty word."""
    lower = pc.utf8_lower(pa.array(texts, pa.string()))
    letters = pc.replace_substring_regex(lower, _NO_LETTERS, " ")
    return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(letters))


class _NGrams:
    """The n-grams of test sentences that the training text of one language contains.

    A word is a random 64-bit number, or 0 if no test sentence has it. The hash of an n-gram is the
    sum of these numbers, each times an odd constant for its index (mod 2^64). With a million
    n-grams of tests and a billion of training text, the probability of any collision is 1 in
    20,000.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        generator = np.random.default_rng(1)
        words = words_of(sentences)
        # In the order of the first occurrence; an empty word stands for none.
        self._words = words.flatten().unique().filter(pc.not_equal(words.flatten().unique(), ""))
        self._numbers, self._factors = (
            generator.integers(2**64, size=size, dtype=np.uint64) | np.uint64(1)
            for size in (len(self._words), NGRAM_WORDS)
        )
        ngrams, sentence_of = self._hashes(sentences)
        ends = np.searchsorted(sentence_of, range(1, len(sentences)))
        self._ngrams_of = np.split(ngrams, ends)
        self._distinct = np.unique(ngrams)
        self._is_found = np.zeros(len(self._distinct), dtype=bool)

    def read(self, lines: Sequence[str]) -> None:
        """Mark the n-grams that training lines contain."""
        ngrams, _ = self._hashes(lines)
        if not len(ngrams) or not len(self._distinct):
            return
        indices = np.searchsorted(self._distinct, ngrams).clip(max=len(self._distinct) - 1)
        self._is_found[indices[self._distinct[indices] == ngrams]] = True

    def near(self) -> list[bool]:
        """Whether enough n-grams of each sentence were found."""
        shares = (
            self._is_found[np.searchsorted(self._distinct, ngrams)].mean() if len(ngrams) else 0.0
            for ngrams in self._ngrams_of
        )
        return [bool(share >= NEAR_SHARE) for share in shares]

    def _hashes(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the hashes of the n-grams of all lines, and the index of the line of each.

        A short line is padded to one n-gram. N-grams with a word that no test sentence has are
        left out.
        """
        words = words_of(lines)
        lengths = pc.list_value_length(words).to_numpy()
        # A 0 after each line: an n-gram does not continue in the next one.
        starts = np.cumsum(np.maximum(lengths, NGRAM_WORDS) + 1)
        row = np.zeros(int(starts[-1]) if len(starts) else 0, dtype=np.uint64)
        starts = np.concatenate(([0], starts[:-1]))
        # A short line has to equal a whole line, not a part of a longer one.
        for offset in range(NGRAM_WORDS):
            row[starts[lengths <= offset] + offset] = _PADDING
        known = pc.index_in(words.flatten(), value_set=self._words).fill_null(-1).to_numpy()
        before = np.cumsum(lengths) - lengths
        positions = np.arange(len(known)) + np.repeat(starts - before, lengths)
        row[positions] = np.where(known < 0, 0, np.append(self._numbers, np.uint64(0))[known])
        if len(row) < NGRAM_WORDS:
            return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(row, NGRAM_WORDS)
        positions = np.flatnonzero(_windows_without_zero(row))
        hashes = (windows[positions] * self._factors).sum(axis=1, dtype=np.uint64)
        return hashes, np.searchsorted(starts, positions, side="right") - 1


_PADDING = 2
"""Pads a short line; the numbers of words are odd."""


def _windows_without_zero(row: np.ndarray) -> np.ndarray:
    """(len(row) - NGRAM_WORDS + 1,) bool: windows without a 0."""
    zeros = np.concatenate(([0], np.cumsum(row == 0)))
    return zeros[NGRAM_WORDS:] == zeros[:-NGRAM_WORDS]


@dataclass
class _TestSide:
    """One language of all test sets, concatenated."""

    sentences: list[str]
    ngrams: _NGrams = field(init=False)
    indices: dict[str, list[int]] = field(init=False)
    is_exact: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.ngrams = _NGrams(self.sentences)
        self.is_exact = [False] * len(self.sentences)
        self.indices = {}
        for index, sentence in enumerate(self.sentences):
            self.indices.setdefault(sentence, []).append(index)

    def read(self, lines: list[str]) -> None:
        """Compare training lines."""
        for line in lines:
            for index in self.indices.get(line, ()):
                self.is_exact[index] = True
        self.ngrams.read(lines)


def count_leakage(
    tests: dict[str, tuple[list[str], list[str]]],
    chunks: Iterable[tuple[list[str], list[str]]],
    advance: Advance,
) -> dict[str, dict[str, Any]]:
    """Count the sentences of each test set that the training text contains.

    Args:
        tests: sources and references by split.
        chunks: aligned training lines in chunks.
        advance: receives the number of pairs of each chunk.

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
    nears = [side.ngrams.near() for side in sides]
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


@dataclass(frozen=True)
class _Stored:
    """Contents of `leakage.json`."""

    version: int
    splits: dict[str, dict[str, Any]]


def leakage_of(text: CleanedText, reporter: Reporter) -> dict[str, dict[str, Any]]:
    """Count the leakage of cleaned text, or read the counts from `leakage.json` in its folder."""
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
            read_lines(text.text_folder() / f"{split}.{source}"),
            read_lines(text.text_folder() / f"{split}.{target}"),
        )
        for split in sorted(summary.num_pairs.keys() - {TRAIN})
    }
    description = "Looking for test sentences in the training text"
    with reporter.stage(description, sum(summary.parts)) as advance:
        counts = count_leakage(tests, _chunks(text, len(summary.parts)), advance)
    write_json(path, {"version": LEAKAGE_VERSION, "splits": counts})
    return counts


def _chunks(text: CleanedText, num_parts: int) -> Iterator[tuple[list[str], list[str]]]:
    for part in range(num_parts):
        paths = [text.part_path(part, language) for language in text.languages]
        source, target = map(iterate_lines, paths)
        while lines := list(islice(source, _CHUNK_LINES)):
            yield lines, list(islice(target, _CHUNK_LINES))
