"""Position encodings: sinusoidal, learned or rotary."""

import torch
from torch import Tensor, nn

from nmt.config import ModelConfig, Positions, Timescales
from nmt.model import cpu


def sinusoidal_table(length: int, width: int, timescales: Timescales = Timescales.paper) -> Tensor:
    """Compute the positional encoding of Vaswani et al. 2017, section 3.5.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i+1) = cos(pos / 10000^(2i/D)). Marian and
    tensor2tensor, the program of the paper's authors, have D - 2 instead of D in the exponents.

    Returns:
        (length, D), where D is `width`, an even number.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    exponent_width = width if timescales is Timescales.paper else max(1, width - 2)
    frequency = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / exponent_width)
    angle = position * frequency  # (length, D / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()  # (length, D)


def _rows(table: Tensor, first: int | Tensor, length: int) -> Tensor:
    """Return the rows `first`, `first` + 1, … of a table: (length, E).

    If `first` is a tensor, return the rows of its elements. It is (B, L) in packed rows, and (1,)
    in a decoding step of fixed shapes, where `length` is 1.
    """
    return table[first : first + length] if isinstance(first, int) else table[first]


class AddedPositions(nn.Module):
    """Adds fixed (section 3.5) or learned (Table 3, row E) position vectors to embeddings."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table: Tensor  # (max_length, D)
        if config.positions is Positions.learned:
            self.table = nn.Parameter(torch.empty(config.max_length, config.width))
            nn.init.normal_(self.table, std=config.width**-0.5)
        else:
            table = sinusoidal_table(config.max_length, config.width, config.timescales)
            self.register_buffer("table", table, persistent=False)

    def forward(self, embeddings: Tensor, first: int | Tensor = 0) -> Tensor:
        """Add the vectors of positions `first`, `first` + 1, … to embeddings (B, L, D).

        In packed rows, `first` is the tensor (B, L) of all positions.
        """
        return embeddings + _rows(self.table, first, embeddings.size(1))


class RotaryPositions(nn.Module):
    """Rotates queries and keys by angles proportional to their position.

    After rotation, the dot product of a query and a key depends on their positions only through the
    distance (Su et al. 2021, "RoFormer", equation 34). Only self-attention uses rotation, because
    the distance between a source and a target position has no meaning.
    """

    def __init__(self, max_length: int, head_width: int) -> None:
        super().__init__()
        sines_and_cosines = sinusoidal_table(max_length, head_width).view(max_length, -1, 2)
        self.table: Tensor  # (max_length, E / 2, 2) cosine and sine of each angle
        self.register_buffer("table", sines_and_cosines.flip(-1), persistent=False)

    def forward(self, heads: Tensor, first: int | Tensor = 0) -> Tensor:
        """Rotate vectors (B, H, L, E); `first` is that of `AddedPositions`."""
        rows = _rows(self.table, first, heads.size(2)).unsqueeze(-4)  # (1 or B, 1, L, E / 2, 2)
        if cpu.use_cpu_operators(heads):
            return cpu.rotate(heads, rows)
        cos, sin = rows.unbind(-1)
        even, odd = heads[..., 0::2], heads[..., 1::2]  # (B, H, L, E / 2)
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rotated.flatten(-2)  # (B, H, L, E)
