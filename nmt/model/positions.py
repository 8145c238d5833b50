"""How a position enters the model: sinusoidal, learned or rotary."""

import torch
from torch import Tensor, nn


def sinusoidal_table(length: int, width: int) -> Tensor:
    """The paper's positional encoding, (length, D).

    PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i+1) = cos of the same angle
    (Vaswani et al. 2017, section 3.5).
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = position * frequency
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()  # (length, D)


def rows_of(table: Tensor, first: int | Tensor, length: int) -> Tensor:
    """Rows first, first + 1, … of a table: (L, E), or (N, L, E) where `first` is (N,)."""
    if isinstance(first, int):
        return table[first : first + length]
    return table[first[:, None] + torch.arange(length, device=first.device)]


class SinusoidalPositions(nn.Module):
    """Adds the fixed table of section 3.5 to the embeddings."""

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_table(max_length, width), persistent=False)

    def forward(self, embeddings: Tensor, first: int | Tensor) -> Tensor:
        """(B, L, D) embeddings of positions first, first + 1, … with their positions added.

        `first` is one for all rows, or (B,).
        """
        assert isinstance(self.table, Tensor)
        return embeddings + rows_of(self.table, first, embeddings.size(-2))


class LearnedPositions(nn.Module):
    """Adds a learned vector a position, the variant of the paper's Table 3, row (E)."""

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_length, width))
        nn.init.normal_(self.table, std=width**-0.5)

    def forward(self, embeddings: Tensor, first: int | Tensor) -> Tensor:
        """(B, L, D) embeddings of positions first, first + 1, … with their positions added.

        `first` is one for all rows, or (B,).
        """
        return embeddings + rows_of(self.table, first, embeddings.size(-2))


class RotaryRotation(nn.Module):
    """Turns queries and keys by angles that grow with their position.

    The product of a query and a key then depends on how far apart they are (Su et al. 2021,
    "RoFormer", equation 34). It is applied in self-attention only: source and target positions
    have no common origin.
    """

    def __init__(self, max_length: int, head_width: int) -> None:
        super().__init__()
        table = sinusoidal_table(max_length, head_width)
        self.register_buffer("sin", table[:, 0::2].contiguous(), persistent=False)
        self.register_buffer("cos", table[:, 1::2].contiguous(), persistent=False)

    def forward(self, heads: Tensor, first: int | Tensor) -> Tensor:
        """Turn (B, H, L, E) vectors of positions first, first + 1, …; `first` may be (B,)."""
        assert isinstance(self.sin, Tensor)
        assert isinstance(self.cos, Tensor)
        sin, cos = (rows_of(table, first, heads.size(-2)) for table in (self.sin, self.cos))
        if not isinstance(first, int):
            sin, cos = sin[:, None], cos[:, None]  # (N, 1, L, E / 2): the same for all heads
        if heads.device.type == "cpu" and heads.dtype is cos.dtype:
            # Pairs as complex numbers: one pass in place of eight, a tenth of the time. Elsewhere
            # the formula, which compilers understand and narrow numbers can have.
            pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
            return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)
        even, odd = heads[..., 0::2], heads[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return turned.flatten(-2)  # (B, H, L, E)
