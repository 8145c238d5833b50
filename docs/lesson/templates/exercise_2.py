"""Exercise 2 of docs/lesson.md: write the function, then run `make lesson EXERCISE=2`."""

from torch import Tensor


def causal_mask(length: int) -> Tensor:
    """Return the (T, T) mask, True = attend, by which position t attends to positions 0 to t."""
    raise NotImplementedError
