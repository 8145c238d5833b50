"""What the decoder keeps between steps."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.attention import KeyValueCache
from nmt.model.rows import RowGrid
from nmt.model.slots import SharedSlots


@dataclass
class DecoderState:
    """What the decoder keeps between steps, for N rows of B sentences.

    The rows of one sentence stand together, any number of them. A sentence whose rows are gone
    stays until an eighth of the sentences has gone: not every end of one is to copy what the
    others have.

    Attributes:
        caches: one a layer: self-attention keys and values so far.
        slots: where in the caches each row's tokens stand.
        memory_keys: one a layer: (B, H, S, d_k) of cross-attention, computed once.
        memory_values: one a layer: (B, H, S, d_v).
        memory_mask: (B, 1, 1, S) True where one may attend.
        sentences: (N,) which sentence each row belongs to, ascending.
        grid: the rows by sentence.
        positions: the position that the next step decodes: one for all rows, or (N,).
        coverage: (N, S) attention that each source position has had, averaged over heads, summed
            over steps; None where it is not kept.
    """

    caches: list[KeyValueCache]
    slots: SharedSlots
    memory_keys: list[Tensor]
    memory_values: list[Tensor]
    memory_mask: Tensor
    sentences: Tensor
    grid: RowGrid
    positions: int | Tensor = 0
    coverage: Tensor | None = None

    def take_slots(self) -> tuple[Tensor, Tensor]:
        """Make room for the next token of every row; see `SharedSlots.take`."""
        places, mask = self.slots.take(self.sentences, self.grid)
        for cache in self.caches:
            cache.resize(self.slots.capacity)
        return places, mask

    def covered(self) -> Tensor:
        """(N,) sum over source tokens of log min(1, attention had); EOS is not counted.

        Wu et al. 2016, equation 14, without beta.
        """
        assert self.coverage is not None
        mask = self.memory_mask[:, 0, 0]  # (B, S)
        # A token that another follows: every real one but EOS.
        is_inside = F.pad(mask[:, 1:], (0, 1)).index_select(0, self.sentences)  # (N, S)
        least = torch.finfo(self.coverage.dtype).tiny
        logs = self.coverage.clamp(least, 1.0).log()
        return logs.masked_fill(~is_inside, 0.0).sum(dim=1)

    def reorder(self, rows: Tensor) -> "DecoderState":
        """Keep `rows` (N',): repeats are allowed, and those of a sentence stand together.

        A sentence without a row is dropped. The state is changed in place and returned.
        """
        if torch.equal(rows, torch.arange(len(self.sentences), device=rows.device)):
            return self
        self.slots.keep(rows)
        self.sentences = self.sentences.index_select(0, rows)
        if not isinstance(self.positions, int):
            self.positions = self.positions.index_select(0, rows)
        if self.coverage is not None:
            self.coverage = self.coverage.index_select(0, rows)
        self._drop_sentences(at_least=max(1, len(self.memory_mask) // 8))
        return self

    def append(self, fresh: "DecoderState") -> "DecoderState":
        """Put the sentences of a state that has not been stepped behind the present ones.

        The state is changed in place and returned.
        """
        assert fresh.positions == 0
        self._drop_sentences(at_least=1)
        self._trim_memory()
        if isinstance(self.positions, Tensor) or self.positions:
            own = self.positions + torch.zeros_like(self.sentences)
            self.positions = torch.cat((own, torch.zeros_like(fresh.sentences)))
        self.slots.shrink()
        for cache in self.caches:
            cache.resize(self.slots.capacity)
            cache.add_sentences(len(fresh.memory_mask))
        self.slots.add(fresh.slots)
        width = max(self.memory_mask.size(-1), fresh.memory_mask.size(-1))
        self.memory_keys = _stacked(self.memory_keys, fresh.memory_keys, width)
        self.memory_values = _stacked(self.memory_values, fresh.memory_values, width)
        masks = [F.pad(mask, (0, width - mask.size(-1))) for mask in _masks(self, fresh)]
        if self.coverage is not None and fresh.coverage is not None:
            parts = (self.coverage, fresh.coverage)
            self.coverage = torch.cat([F.pad(p, (0, width - p.size(1))) for p in parts])
        self.sentences = torch.cat((self.sentences, fresh.sentences + len(self.memory_mask)))
        self.memory_mask = torch.cat(masks)
        self.grid = RowGrid.of(self.sentences, len(self.memory_mask))
        return self

    def _drop_sentences(self, at_least: int) -> None:
        """Drop the sentences without a row where there are `at_least` so many."""
        kept, places = torch.unique_consecutive(self.sentences, return_inverse=True)
        num_sentences = len(self.memory_mask)
        if num_sentences - len(kept) >= at_least:
            num_sentences, self.sentences = len(kept), places
            for vectors in (self.memory_keys, self.memory_values):
                for layer, of_all in enumerate(vectors):  # one after the other, for the memory
                    vectors[layer] = of_all.index_select(0, kept)
            self.memory_mask = self.memory_mask.index_select(0, kept)
            for cache in self.caches:
                cache.keep(kept)
        self.grid = RowGrid.of(self.sentences, num_sentences)

    def _trim_memory(self) -> None:
        """Drop the source positions that only sentences now gone had."""
        width = int(self.memory_mask.sum(-1).max()) if len(self.memory_mask) else 0
        self.memory_keys = [keys[:, :, :width] for keys in self.memory_keys]
        self.memory_values = [values[:, :, :width] for values in self.memory_values]
        self.memory_mask = self.memory_mask[..., :width]
        if self.coverage is not None:
            self.coverage = self.coverage[:, :width]


def _masks(*states: DecoderState) -> list[Tensor]:
    return [state.memory_mask for state in states]


def _stacked(first: list[Tensor], second: list[Tensor], width: int) -> list[Tensor]:
    """Layer by layer, one below the other, (B, H, S, E) padded to S = width."""
    return [
        torch.cat([F.pad(part, (0, 0, 0, width - part.size(2))) for part in layer])
        for layer in zip(first, second, strict=True)
    ]
