"""Exercise 5 of docs/lesson.md: write the function, then run `make lesson EXERCISE=5`."""

from torch import Tensor


def beam_step(log_probs: Tensor, next_log_probs: Tensor) -> Tensor:
    """Select the K best continuations of K hypotheses, best first.

    Args:
        log_probs: (K,) log-probabilities of the hypotheses.
        next_log_probs: (K, V) log-probabilities of the next token of each hypothesis.

    Returns:
        (K, 2): index of the hypothesis, and token that continues it.
    """
    raise NotImplementedError
