"""What the decoder keeps between steps."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.attention import KeyValueCache
from nmt.model.rows import RowGrid


@dataclass
class DecoderState:
    """What the decoder keeps between steps, for N rows of B sentences.

    The rows of one sentence stand together, any number of them. Sentences may have begun at
    different steps: all rows write to the same slot of the caches, and each has its own position.

    Attributes:
        caches: one a layer: self-attention keys and values so far, N rows.
        memory_keys: one a layer: (B, H, S, d_k) of cross-attention, computed once.
        memory_values: one a layer: (B, H, S, d_v).
        memory_mask: (B, 1, 1, S) True where one may attend.
        sentences: (N,) which sentence each row belongs to, ascending.
        grid: the rows by sentence.
        starts: (N,) slot of each row's position 0; None where that is slot 0 for all.
        coverage: (N, S) attention that each source position has had, averaged over heads, summed
            over steps; None where it is not kept.
    """

    caches: list[KeyValueCache]
    memory_keys: list[Tensor]
    memory_values: list[Tensor]
    memory_mask: Tensor
    sentences: Tensor
    grid: RowGrid
    starts: Tensor | None = None
    coverage: Tensor | None = None

    @property
    def positions(self) -> int | Tensor:
        """The position that the next step decodes: one for all rows, or (N,)."""
        length = self.caches[0].length
        return length if self.starts is None else length - self.starts

    def cache_mask(self) -> Tensor | None:
        """(N, 1, 1, slots) True where the next step may attend to; None where it may anywhere."""
        if self.starts is None:
            return None
        slots = torch.arange(self.caches[0].length + 1, device=self.starts.device)
        return (slots >= self.starts[:, None])[:, None, None]

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
        sentences = self.sentences.index_select(0, rows)
        kept, self.sentences = torch.unique_consecutive(sentences, return_inverse=True)
        if len(kept) < len(self.memory_mask):
            self.memory_keys = [keys.index_select(0, kept) for keys in self.memory_keys]
            self.memory_values = [values.index_select(0, kept) for values in self.memory_values]
            self.memory_mask = self.memory_mask.index_select(0, kept)
        self.grid = RowGrid.of(self.sentences, len(kept))
        if self.starts is not None:
            self.starts = self.starts.index_select(0, rows)
        if self.coverage is not None:
            self.coverage = self.coverage.index_select(0, rows)
        for cache in self.caches:
            cache.reorder(rows)
        return self

    def append(self, fresh: "DecoderState") -> "DecoderState":
        """Put the sentences of a state that has not been stepped behind the present ones.

        The state is changed in place and returned.
        """
        assert fresh.caches[0].length == 0
        self._forget_unused_slots()
        length, num_fresh = self.caches[0].length, len(fresh.sentences)
        for cache in self.caches:
            cache.add_rows(num_fresh)
        starts = self.sentences.new_zeros(len(self.sentences))
        if self.starts is not None:
            starts = self.starts
        self.starts = torch.cat((starts, starts.new_full((num_fresh,), length)))
        if not length:
            self.starts = None
        self._trim_memory()
        width = max(self.memory_mask.size(-1), fresh.memory_mask.size(-1))
        self.memory_keys = _stacked(self.memory_keys, fresh.memory_keys, width)
        self.memory_values = _stacked(self.memory_values, fresh.memory_values, width)
        masks = [F.pad(mask, (0, width - mask.size(-1))) for mask in _masks(self, fresh)]
        if self.coverage is not None and fresh.coverage is not None:
            parts = (self.coverage, fresh.coverage)
            self.coverage = torch.cat([F.pad(p, (0, width - p.size(1))) for p in parts])
        num_sentences = len(self.memory_mask)
        self.memory_mask = torch.cat(masks)
        self.sentences = torch.cat((self.sentences, fresh.sentences + num_sentences))
        self.grid = RowGrid.of(self.sentences, len(self.memory_mask))
        return self

    def _forget_unused_slots(self) -> None:
        """Drop the slots before the earliest start: the rows that used them are gone."""
        unused = int(self.starts.min()) if self.starts is not None and len(self.starts) else 0
        if unused and self.starts is not None:
            for cache in self.caches:
                cache.drop_slots(unused)
            self.starts = self.starts - unused

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
