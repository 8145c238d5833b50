"""Terms in training sources: a lexicon learned from the corpus, and the pairs that get its terms.

A share of the training pairs has the lemmas of some target words in its source, beside the words
that they translate, so that the model learns to use given terms, inflected as the sentence needs
(Dinu et al. 2019; Bergmanis and Pinnis 2021). Which words translate each other is learned by IBM
model 1 in both directions at once, whose alignments must agree (Liang et al. 2006).
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import regex

from data_prep.cleaned_text import CleanedText
from data_prep.progress import Reporter
from data_prep.train_tokenizer import sample_lines
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.base.terms import TERM_TAGS, WORD, lemma, with_terms
from nmt.tokenizer import Tokenizer

TERMINOLOGY_VERSION = 1
"""Part of the fingerprint of a corpus with terms: raise it whenever the results change."""

LEXICON_FILE = "terms.tsv"
"""Name of the lexicon in the folder of a corpus: a source lemma and a target lemma per line."""

_SAMPLE_PAIRS = 200_000
_MAX_LINKS = 20_000_000  # about a gigabyte of memory
_MAX_SHARE = 0.01  # of the pairs; more frequent words are no terms
_MIN_LETTERS = 3
_ITERATIONS = 5
_MIN_PROBABILITY = 0.2  # of a translation, in both directions
_MIN_LINKS = 1.5  # expected number of links in the sample

_Link = tuple["regex.Match[str]", "regex.Match[str]"]


@dataclass(frozen=True)
class Terms:
    """Puts terms into the sources of training pairs.

    Attributes:
        share: share of the pairs that get terms.
        languages: codes of source and target.
        lexicon: the keys of the target words that may translate a source word, by its key.
    """

    share: float
    languages: tuple[str, str]
    lexicon: Mapping[str, Set[str]]

    def annotated(self, source: str, target: str) -> str:
        """Return the source of a training pair, with terms in a share of the pairs.

        The result depends on the pair alone.

        About half of the words that can be terms are; neighbours in both texts are one term.
        """
        generator = random.Random(f"{source}\t{target}")
        if generator.random() >= self.share:
            return source
        links = self.links(source, target)
        terms: list[tuple[int, int, str]] = []
        ends = -1, -1
        for word, other in [link for link in links if generator.random() < 1 / 2] or links[:1]:
            translation = lemma(other[0], self.languages[1])
            start = word.start()
            if (source[ends[0] : start], target[ends[1] : other.start()]) == (" ", " "):
                start, _, before = terms.pop()
                translation = f"{before} {translation}"
            terms.append((start, word.end(), translation))
            ends = word.end(), other.end()
        return with_terms(source, terms)

    def counts(self, tokenizer: Path, id_counts: np.ndarray) -> dict[str, float]:
        """Return what the manifest has: the share, and numbers of words and of terms in sources."""
        index = Tokenizer(tokenizer).all_pieces().index(TERM_TAGS[0])
        words = len(self.lexicon)
        return {"share": self.share, "num_words": words, "num_terms": int(id_counts[index])}

    def links(self, source: str, target: str) -> list[_Link]:
        """Return the pairs of words that translate only each other, in the order of the source."""
        by_key: dict[str, list[regex.Match[str]]] = {}
        for word in WORD.finditer(target):
            by_key.setdefault(lemma(word[0], self.languages[1]).casefold(), []).append(word)
        links: list[_Link] = []
        uses: Counter[int] = Counter()
        for word in WORD.finditer(source):
            key = lemma(word[0], self.languages[0]).casefold()
            keys = self.lexicon.get(key, set()) & by_key.keys()
            found = [one for key in keys for one in by_key[key]]
            uses.update(one.start() for one in found)
            if len(found) == 1:
                links.append((word, found[0]))
        return [link for link in links if uses[link[1].start()] == 1]


def learn_terms(text: CleanedText, share: float, folder: Path, reporter: Reporter) -> Terms | None:
    """Learn which words translate each other, and write them into the folder of the corpus.

    Returns:
        What puts them into sources; None if the share is 0.

    Raises:
        UserError: no words translate each other often enough.
    """
    if not share:
        return None
    num_pairs = text.summary().parts
    size = min(sum(num_pairs), _SAMPLE_PAIRS)
    with reporter.stage(f"Finding terms in {size:,} pairs", None):
        sides = []
        for code in text.languages:
            paths = [text.part_path(part, code) for part in range(len(num_pairs))]
            sides.append(_Side(sample_lines(paths, sum(num_pairs), size), code))
        entries = sorted(_aligned(*sides))
    if not entries:
        raise UserError(
            f"corpus.terminology={share:g}: no words of the training text translate each other"
            " often enough; leave it out, or add text"
        )
    write_lines(folder / LEXICON_FILE, map("\t".join, entries))
    lexicon: defaultdict[str, set[str]] = defaultdict(set)
    for source, target in entries:
        lexicon[source].add(target)
    return Terms(share, text.languages, dict(lexicon))


class _Side:
    """The words of one language in a sample, as numbers, without the most frequent ones.

    Attributes:
        words: the words, by number.
        ids: (tokens,) the words of all lines; each occurs once in a line.
        lengths: (lines,) number of words of each line.
    """

    def __init__(self, lines: Iterator[str], language: str) -> None:
        numbers: dict[str, int] = {}
        rows = []
        for line in lines:
            keys = dict.fromkeys(lemma(word, language).casefold() for word in WORD.findall(line))
            rows.append(
                [
                    numbers.setdefault(key, len(numbers))
                    for key in keys
                    if len(key) >= _MIN_LETTERS and key.isalpha()
                ]
            )
        counts = Counter(number for row in rows for number in row)
        most = max(2.0, _MAX_SHARE * len(rows))
        kept = [[number for number in row if 1 < counts[number] <= most] for row in rows]
        self.words = list(numbers)
        self.ids = np.array([number for row in kept for number in row], dtype=np.int64)
        self.lengths = np.array([len(row) for row in kept], dtype=np.int64)

    def every(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids and lengths of every `step`-th line; the other lines are empty."""
        is_used = np.arange(len(self.lengths)) % step == 0
        return self.ids[np.repeat(is_used, self.lengths)], np.where(is_used, self.lengths, 0)


def _aligned(source: _Side, target: _Side) -> Iterator[tuple[str, str]]:
    """Yield the pairs of words that translate each other with sufficient probability."""
    step = -(-int((source.lengths * target.lengths).sum()) // _MAX_LINKS) or 1
    (source_ids, source_lengths), (target_ids, target_lengths) = (
        side.every(step) for side in (source, target)
    )
    # Each word of a source line is linked with each word of its target line: (links,).
    per_token = np.repeat(target_lengths, source_lengths)
    source_tokens = np.repeat(np.arange(len(source_ids)), per_token)
    first = np.repeat(np.cumsum(target_lengths) - target_lengths, source_lengths)
    within = np.arange(per_token.sum()) - np.repeat(np.cumsum(per_token) - per_token, per_token)
    target_tokens = np.repeat(first, per_token) + within
    codes = source_ids[source_tokens] * len(target.words) + target_ids[target_tokens]
    kinds, _, expected = link_probabilities(codes, len(target.words), source_tokens, target_tokens)
    source_of, target_of = np.divmod(kinds, len(target.words))
    source_counts, target_counts = np.bincount(source_ids), np.bincount(target_ids)
    most = np.maximum(source_counts[source_of], target_counts[target_of])
    is_good = (expected >= _MIN_LINKS) & (expected >= _MIN_PROBABILITY * most)
    for s, t in zip(source_of[is_good].tolist(), target_of[is_good].tolist(), strict=True):
        yield source.words[s], target.words[t]


def link_probabilities(
    codes: np.ndarray,
    num_target_words: int,
    source_tokens: np.ndarray,
    target_tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Align words by IBM model 1 in both directions, which are trained to agree.

    Args:
        codes: (links,) source word * `num_target_words` + target word of each possible link.
        num_target_words: size of the target vocabulary.
        source_tokens: (links,) index of the source token of each link, in the whole text.
        target_tokens: (links,) index of the target token of each link.

    Returns:
        The codes that occur, in ascending order: (kinds,). The probability of each link: (links,).
        The expected number of links of each kind: (kinds,).
    """
    kinds, kind_of, counts = np.unique(codes, return_inverse=True, return_counts=True)
    source_of, target_of = np.divmod(kinds, num_target_words)
    expected: np.ndarray = counts
    for _ in range(_ITERATIONS):
        forward, backward = _share(expected, source_of), _share(expected, target_of)
        posterior = _share(forward[kind_of], target_tokens)
        posterior *= _share(backward[kind_of], source_tokens)
        expected = np.bincount(kind_of, posterior, len(kinds))
    return kinds, posterior, expected


def _share(weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return each weight as a share of those of its group."""
    return weights / np.bincount(groups, weights)[groups]
