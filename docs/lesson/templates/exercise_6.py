"""Exercise 6 of docs/lesson.md: write the function, then run `make lesson EXERCISE=6`."""

from torch import Tensor


def scores(log_probs: Tensor, lengths: Tensor, alpha: float) -> Tensor:
    """Divide log-probabilities by the length penalty ((5 + n) / 6) ** alpha of n tokens.

    Args:
        log_probs: (N,) log-probabilities of finished hypotheses.
        lengths: (N,) their numbers of tokens.
        alpha: exponent of the penalty.

    Returns:
        (N,).
    """
    raise NotImplementedError
