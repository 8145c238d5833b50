"""Rows grouped by sentence, where sentences have different numbers of rows."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowGrid:
    """Arrangement of N rows as a grid of B sentences by K rows."""

    num_sentences: int  # B
    max_rows: int  # K, the largest number of rows of a sentence
    # (N,) index of each row in the flattened (B·K) grid; None if every sentence has K rows.
    indices: Tensor | None

    @classmethod
    def of(cls, sentences: Tensor, num_sentences: int) -> "RowGrid":
        """Build the grid from the sentence index of each row, (N,) in ascending order."""
        counts = sentences.bincount(minlength=num_sentences)  # (B,)
        max_rows = int(counts.max())
        if len(sentences) == num_sentences * max_rows:
            return cls(num_sentences, max_rows, None)
        first_rows = counts.cumsum(0) - counts  # (B,)
        ranks = torch.arange(len(sentences), device=sentences.device) - first_rows[sentences]
        return cls(num_sentences, max_rows, sentences * max_rows + ranks)

    def spread(self, rows: Tensor, fill: float = 0.0) -> Tensor:
        """Arrange rows (N, D) as a grid (B, K, D), with `fill` in cells without a row."""
        if self.indices is not None:
            grid = rows.new_full((self.num_sentences * self.max_rows, rows.size(-1)), fill)
            rows = grid.index_copy_(0, self.indices, rows)
        return rows.view(self.num_sentences, self.max_rows, -1)

    def collect(self, grid: Tensor) -> Tensor:
        """Return the rows (N, D) of a grid (B, K, D)."""
        rows = grid.reshape(-1, grid.size(-1))
        return rows if self.indices is None else rows.index_select(0, self.indices)

    def rows_at(self, cells: Tensor) -> Tensor:
        """Return the row in each of `cells`, indices of the flattened grid; 0 in an empty cell."""
        if self.indices is None:
            return cells
        rows = self.indices.new_zeros(self.num_sentences * self.max_rows)
        rows[self.indices] = torch.arange(len(self.indices), device=cells.device)
        return rows[cells]
