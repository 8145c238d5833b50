"""Exercise 4 of docs/lesson.md: write the function, then run `make lesson EXERCISE=4`."""

from torch import Tensor


def smoothed_loss(logits: Tensor, target: Tensor, eps: float) -> Tensor:
    """Compute the cross-entropy with label smoothing in nats, summed over the target tokens.

    The target distribution gives 1 - eps to the correct token, and eps / V to every token,
    including that one.

    Args:
        logits: (N, V).
        target: (N,) ids of the correct tokens.
        eps: the paper's epsilon_ls.

    Returns:
        A scalar.
    """
    raise NotImplementedError
