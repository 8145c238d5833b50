"""Rows of sentences that have unlike numbers of them."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class RowGrid:
    """Where the N rows of B sentences stand when each sentence is given K places.

    Attributes:
        num_sentences: B.
        num_places: K, the most rows that a sentence has.
        places: (N,) place of each row among B·K; None where every sentence has K rows.
    """

    num_sentences: int
    num_places: int
    places: Tensor | None

    @classmethod
    def of(cls, sentences: Tensor, num_sentences: int) -> "RowGrid":
        """The grid of rows whose sentences, (N,) in ascending order, are given."""
        counts = sentences.bincount(minlength=num_sentences)
        most = int(counts.max()) if len(sentences) else 0
        if len(sentences) == num_sentences * most:
            return cls(num_sentences, most, None)
        first_rows = counts.cumsum(0) - counts  # (B,)
        ranks = torch.arange(len(sentences), device=sentences.device) - first_rows[sentences]
        return cls(num_sentences, most, sentences * most + ranks)

    def spread(self, rows: Tensor, fill: float = 0.0) -> Tensor:
        """(N, D) rows → (B, K, D), with `fill` in the places that no row has."""
        if self.places is not None:
            num_rows = self.num_sentences * self.num_places
            grid = rows.new_full((num_rows, rows.size(-1)), fill)
            rows = grid.index_copy_(0, self.places, rows)
        return rows.view(self.num_sentences, self.num_places, -1)

    def collect(self, grid: Tensor) -> Tensor:
        """(B, K, D) → the (N, D) rows that stand in it."""
        rows = grid.reshape(-1, grid.size(-1))
        return rows if self.places is None else rows.index_select(0, self.places)

    def rows_at(self, places: Tensor) -> Tensor:
        """The rows that stand at places (M,) of B·K; 0 for a place that no row has."""
        if self.places is None:
            return places
        rows = self.places.new_zeros(self.num_sentences * self.num_places)
        rows[self.places] = torch.arange(len(self.places), device=places.device)
        return rows[places]
