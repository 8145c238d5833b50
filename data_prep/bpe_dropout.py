"""BPE-dropout: skip merges at random, so that a model sees several segmentations of a word.

Provilkov et al. 2020, "BPE-Dropout: Simple and Effective Subword Regularization", section 3. As in
the sampling of sentencepiece, a skipped merge is not tried again. Algorithm 1 of the paper tries it
again after every merge, so a rate of 0.05 here gives sentences about as long as a rate of 0.1
there: a fifth longer than without dropout (Multi30k).

Sampling in sentencepiece cannot be used: its generator is not reproducible from a seed, and a
corpus must be the same whenever it is prepared.
"""

import heapq
import math
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, pairwise

from nmt.tokenizer import WORD_BEGIN, Tokenizer

DROPOUT_VERSION = 1
"""Part of the fingerprint of a corpus with dropout: raise it whenever the ids change."""

_WORDS_CACHED = 1 << 17


class BpeDropout:
    """Encodes text with a BPE model; every merge is skipped with probability `rate`.

    Args:
        tokenizer: a BPE model without user-defined pieces.
        rate: a probability in (0, 1).
        seed: the same seed, and the same texts in the same order, give the same ids.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int) -> None:
        assert 0 < rate < 1
        self._tokenizer = tokenizer
        self._ids, self._ranks = {}, {}
        for piece_id, piece, score in tokenizer.ordinary_pieces():
            self._ids[piece] = piece_id
            self._ranks[piece] = -score
        self._ordinary = frozenset(self._ids.values())
        self._random = random.Random(seed)
        self._log_kept = math.log1p(-rate)
        self._merges_until_skip = self._draw()
        self._whole = lru_cache(_WORDS_CACHED)(self._split_whole)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts to ids without BOS and EOS."""
        return [self._encode(text) for text in self._tokenizer.normalise(texts)]

    def _draw(self) -> int:
        # The number of merges before the next skipped one has a geometric distribution.
        return int(math.log(1.0 - self._random.random()) / self._log_kept)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for rest in text.split(WORD_BEGIN)[1:]:
            word = WORD_BEGIN + rest
            word_ids, num_merges = self._whole(word)
            if num_merges <= self._merges_until_skip:
                self._merges_until_skip -= num_merges
                ids += word_ids
            else:
                ids += self._ids_of(self._split(word))
        return ids

    def _split_whole(self, word: str) -> tuple[list[int], int]:
        """The ids of a word with all merges, and the number of merges."""
        [ids] = self._tokenizer.encode([word.removeprefix(WORD_BEGIN)])
        characters = sum(character in self._ids for character in word)
        return ids, characters - sum(each in self._ordinary for each in ids)

    def _ids_of(self, symbols: Sequence[str]) -> list[int]:
        ids: list[int] = []
        for has_id, group in groupby(symbols, self._ids.__contains__):
            if has_id:
                ids += map(self._ids.__getitem__, group)
            else:
                # Characters without a piece become bytes or unknown; the first id begins a word.
                ids += self._tokenizer.encode(["".join(group)])[0][1:]
        return ids

    def _split(self, word: str) -> list[str]:
        symbols = list(word)
        following = [*range(1, len(word)), -1]
        preceding = list(range(-1, len(word) - 1))
        candidates: list[tuple[float, int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right >= 0:
                piece = symbols[left] + symbols[right]
                if (rank := self._ranks.get(piece)) is not None:
                    heapq.heappush(candidates, (rank, left, right, piece))

        for left, right in pairwise(range(len(word))):
            consider(left, right)
        while candidates:
            _, left, right, piece = heapq.heappop(candidates)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece:
                continue  # one of the two is part of another merge
            if self._merges_until_skip == 0:
                self._merges_until_skip = self._draw()
                continue
            self._merges_until_skip -= 1
            symbols[left], symbols[right] = piece, ""
            following[left] = following[right]
            if following[left] >= 0:
                preceding[following[left]] = left
            consider(preceding[left], left)
            consider(left, following[left])
        return [symbol for symbol in symbols if symbol]
