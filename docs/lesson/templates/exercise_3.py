"""Exercise 3 of docs/lesson.md: write the function, then run `make lesson EXERCISE=3`."""

from torch import Tensor


def positional_encoding(length: int, width: int) -> Tensor:
    """Compute the sinusoidal vectors of the positions 0 to length - 1.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/D)).

    Returns:
        (length, D), where D is `width`, an even number.
    """
    raise NotImplementedError
