"""Hypotheses and their scores."""

import itertools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from nmt.config import DecodingConfig, LengthPenalty

TextOf = Callable[[list[int]], str]
"""Function from token ids to text."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation as token ids."""

    ids: list[int]  # without BOS and EOS
    log_prob: float  # sum of the log-probabilities of the tokens, and of EOS if finished
    score: float  # log_prob divided by the length penalty; the best hypothesis has the highest
    # The terms of log_prob, that of EOS last; empty if the engine does not report them.
    token_log_probs: list[float]


_EXPONENTS = {LengthPenalty.none: 0.0, LengthPenalty.average: 1.0}


def penalty_exponent(config: DecodingConfig) -> float:
    """Return alpha of the length penalty n ** alpha, which other programs use for n tokens.

    For the kind `gnmt`, n ** alpha is an approximation.
    """
    return _EXPONENTS.get(config.length_penalty_kind, config.length_penalty)


def penalty_kind(exponent: float) -> LengthPenalty:
    """Return the kind of penalty for the exponent of another program; see `penalty_exponent`."""
    kinds = {alpha: kind for kind, alpha in _EXPONENTS.items()}
    return kinds.get(exponent, LengthPenalty.gnmt)


def length_penalty(length: int, config: DecodingConfig) -> float:
    """Return the divisor of the log_prob of a hypothesis of n = `length` tokens, EOS included.

    `gnmt` is ((5 + n) / 6) ** alpha (Wu et al. 2016, equation 14), `average` is n, `none` is 1.
    """
    if config.length_penalty_kind is LengthPenalty.gnmt:
        return float(((5.0 + length) / 6.0) ** config.length_penalty)
    return float(length) if config.length_penalty_kind is LengthPenalty.average else 1.0


def best_reachable_penalty(length: int, max_length: int, config: DecodingConfig) -> float:
    """Return the largest length penalty that a live hypothesis of `length` tokens can reach.

    Log-probabilities are never positive, so the final score of a live hypothesis is at most its
    present log_prob divided by this penalty. Every penalty is monotonic in the length, so either
    the shortest or the longest possible length has the largest penalty.
    """
    shortest = min(length + 1, max_length)
    return max(length_penalty(shortest, config), length_penalty(max_length, config))


class NBest:
    """The best hypotheses of one sentence, at most `size`.

    With `text_of`, only the best of several hypotheses with the same text is kept.
    """

    def __init__(self, size: int, text_of: TextOf | None = None) -> None:
        self._size = size
        self._text_of = text_of
        self._kept: dict[Hashable, Hypothesis] = {}  # finished ones best first, then cut-off ones
        self._numbers = itertools.count()

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """Finished hypotheses, best first, then those that were cut off."""
        return list(self._kept.values())

    @property
    def lowest_score(self) -> float:
        """Score that a finished hypothesis has to exceed to be kept."""
        return -math.inf if self.num_missing else next(reversed(self._kept.values())).score

    @property
    def num_missing(self) -> int:
        """Number of hypotheses that can be added without removing one."""
        return self._size - len(self._kept)

    def add_finished(self, hypothesis: Hypothesis) -> None:
        """Insert a hypothesis that ends with EOS."""
        key = self._key(hypothesis)
        same = self._kept.pop(key, hypothesis)
        self._kept[key] = same if same.score >= hypothesis.score else hypothesis
        # The sort is stable: of hypotheses with equal scores, the earlier, shorter one is first.
        ranked = sorted(self._kept.items(), key=lambda item: -item[1].score)
        self._kept = dict(ranked[: self._size])

    def add_cut_off(self, hypothesis: Hypothesis) -> None:
        """Append a hypothesis without EOS if the list is not full."""
        if self.num_missing:
            self._kept.setdefault(self._key(hypothesis), hypothesis)

    def _key(self, hypothesis: Hypothesis) -> Hashable:
        return self._text_of(hypothesis.ids) if self._text_of else next(self._numbers)
