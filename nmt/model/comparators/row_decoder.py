"""Base of decoders whose rows share the encoder output only, not results of decoding steps."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from nmt.model.encoder_decoder import EncoderDecoder
from nmt.search.rows import RowGrid


@dataclass
class RowState:
    """State of the decoder for N rows of B sentences."""

    rows: list[Tensor]  # (N, …) each: what differs between the rows of a sentence
    shared: list[Tensor]  # (B, …) each, such as projections of the encoder output
    sentences: Tensor  # (N,) index of the sentence of each row, ascending
    grid: RowGrid  # the rows by sentence, so that they can attend as K queries of one sentence
    position: int = 0  # target position of the next decoding step

    @classmethod
    def start(cls, rows: list[Tensor], shared: list[Tensor]) -> Self:
        """Return the state before the first decoding step, with one row per sentence."""
        sentences = torch.arange(len(shared[0]), device=shared[0].device)
        return cls(rows, shared, sentences, RowGrid(len(sentences), 1, None))

    def attend(self, attention: nn.Module, queries: Tensor) -> Tensor:
        """Compute the contexts (N, T, D) of T positions of every row.

        If T is 1, the rows of a sentence attend as K queries of one sentence. If not, each sentence
        must have one row. `attention` reads queries, (B, K, D) or (B, T, D), and
        `shared`, and returns contexts and weights.
        """
        if queries.size(1) > 1:
            return attention(queries, *self.shared)[0]
        contexts, _ = attention(self.grid.spread(queries[:, 0]), *self.shared)
        return self.grid.collect(contexts)[:, None]

    def reorder(self, rows: Tensor) -> Self:
        """Select rows in place, and return the state itself.

        `rows` (N',) are the indices of the rows; they are ordered by sentence and may repeat.
        """
        self.rows = [tensor.index_select(0, rows) for tensor in self.rows]
        kept, self.sentences = torch.unique_consecutive(
            self.sentences.index_select(0, rows), return_inverse=True
        )
        if len(kept) < len(self.shared[0]):
            self.shared = [tensor.index_select(0, kept) for tensor in self.shared]
        self.grid = RowGrid.of(self.sentences, len(kept))
        return self


class RowDecoder(EncoderDecoder[RowState]):
    """Base of architectures with a `RowState`; `start` creates it.

    The module `attention` returns contexts (B, T, D) and weights (B, T, S). An architecture without
    such a module overrides `attention_maps`.
    """

    attention: nn.Module

    @abstractmethod
    def continued(self, ids: Tensor, state: RowState) -> Tensor:
        """Decode ids at the next T positions, (N, T) → (N, T, D), and update `state.rows`.

        Either T is 1, or each sentence has one row.
        """

    def decode(self, target_input: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all target positions (B, T) at once to (B, T, D)."""
        return self.continued(target_input, self.start(memory, source_mask))

    def step(self, tokens: Tensor, state: RowState) -> tuple[Tensor, RowState]:
        """Decode one target position of every row: tokens (N,) → logits (N, V)."""
        hidden = self.continued(tokens[:, None], state)
        state.position += 1
        return self.project(hidden[:, 0]), state

    def attention_maps(
        self, source: Tensor, source_mask: Tensor, target_input: Tensor
    ) -> dict[str, list[Tensor]]:
        """Return as `cross` the attention weights (B, 1, T, S) of each layer with `attention`."""
        maps: list[Tensor] = []
        network = self.with_own_hooks()
        with network.attention.register_forward_hook(
            lambda _module, _inputs, outputs: maps.append(outputs[1][:, None])
        ):
            network(source, source_mask, target_input)
        return {"cross": maps}
