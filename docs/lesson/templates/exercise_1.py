"""Exercise 1 of docs/lesson.md: write the function, then run `make lesson EXERCISE=1`."""

from torch import Tensor


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute softmax(Q K^T / sqrt(d_k)), the weights of attention.

    Args:
        query: (T, d_k).
        key: (S, d_k).
        mask: (T, S), True = attend; None to attend to everything.

    Returns:
        (T, S), each row of which sums to one.
    """
    raise NotImplementedError
