"""Exercise 4 of docs/lesson.md: write the function, then run `make lesson EXERCISE=4`."""

from torch import Tensor


def smoothed_loss(logits: Tensor, target: Tensor, eps: float) -> Tensor:
    """Compute the cross-entropy with label smoothing in nats, summed over the target tokens.

    The correct token has the probability 1 - eps, and eps is shared evenly among all V tokens.

    Args:
        logits: (N, V).
        target: (N,) ids of the correct tokens.
        eps: the paper's epsilon_ls.

    Returns:
        A scalar.
    """
    raise NotImplementedError
