"""What search finds, and how it is scored."""

from dataclasses import dataclass

from nmt.config import DecodingConfig, LengthPenalty


@dataclass(frozen=True)
class Hypothesis:
    """One translation.

    Attributes:
        ids: tokens, without BOS and EOS.
        log_prob: sum of the log-probabilities of the tokens and EOS.
        score: log_prob over the length penalty; the best translation has the highest.
        token_log_probs: log-probability of each token, EOS last; empty where the engine does not
            tell them.
    """

    ids: list[int]
    log_prob: float
    score: float
    token_log_probs: list[float]


def penalty_exponent(config: DecodingConfig) -> float:
    """alpha where the penalty is n ** alpha, the form of other programs; GNMT's only comes near."""
    kinds = {LengthPenalty.none: 0.0, LengthPenalty.average: 1.0}
    return kinds.get(config.length_penalty_kind, config.length_penalty)


def length_penalty(length: int, config: DecodingConfig) -> float:
    """What the log_prob of `length` tokens, EOS counted, is divided by.

    `gnmt` is ((5 + n) / 6) ** alpha (Wu et al. 2016, equation 14), `average` is n, `none` is 1.
    """
    if config.length_penalty_kind is LengthPenalty.gnmt:
        return float(((5.0 + length) / 6.0) ** config.length_penalty)
    return float(length) if config.length_penalty_kind is LengthPenalty.average else 1.0


def best_reachable_penalty(length: int, max_length: int, config: DecodingConfig) -> float:
    """The largest penalty of a hypothesis that has `length` tokens and goes on.

    Log-probabilities only fall, so what is live cannot come to a better score than its present sum
    over this. Every penalty rises or falls steadily with the length: the largest is at one end.
    """
    shortest = min(length + 1, max_length)
    return max(length_penalty(shortest, config), length_penalty(max_length, config))
