"""State of a decoder whose rows share the encoder output only, not results of decoding steps."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from nmt.search.rows import RowGrid


@dataclass
class RowState:
    """State of the decoder for N rows of B sentences.

    Attributes:
        rows: tensors (N, …) that differ between the rows of a sentence.
        shared: tensors (B, …) of the sentences, such as projections of the encoder output.
        sentences: (N,) index of the sentence of each row, ascending.
        grid: the rows by sentence, so that they can attend as K queries of one sentence.
        position: target position of the next decoding step.
    """

    rows: list[Tensor]
    shared: list[Tensor]
    sentences: Tensor
    grid: RowGrid
    position: int = 0

    @classmethod
    def start(cls, rows: list[Tensor], shared: list[Tensor]) -> Self:
        """Return the state before the first decoding step, with one row per sentence."""
        num_sentences = len(shared[0])
        sentences = torch.arange(num_sentences, device=shared[0].device)
        return cls(rows, shared, sentences, RowGrid.of(sentences, num_sentences))

    def attend(self, attention: nn.Module, queries: Tensor) -> Tensor:
        """Compute the contexts (N, 1, D) of one position of every row.

        The rows of a sentence attend as K queries of one sentence.

        Args:
            attention: returns contexts and weights for queries (B, K, D) and `shared`.
            queries: (N, 1, D).
        """
        contexts, _ = attention(self.grid.spread(queries[:, 0]), *self.shared)
        return self.grid.collect(contexts)[:, None]

    def reorder(self, rows: Tensor) -> Self:
        """Select `rows` (N',) in place; rows may repeat, and are ordered by sentence.

        Returns:
            The state itself.
        """
        self.rows = [tensor.index_select(0, rows) for tensor in self.rows]
        kept, self.sentences = torch.unique_consecutive(
            self.sentences.index_select(0, rows), return_inverse=True
        )
        if len(kept) < len(self.shared[0]):
            self.shared = [tensor.index_select(0, kept) for tensor in self.shared]
        self.grid = RowGrid.of(self.sentences, len(kept))
        return self
