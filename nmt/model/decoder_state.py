"""State of the decoder between decoding steps: keys and values computed so far.

The N rows are the hypotheses of B sentences, ordered by sentence. Hypotheses of one sentence have
most tokens in common, those before they branched. Each sentence therefore has M slots, each for the
keys and values of one token, and a table states which slots each row uses. When a hypothesis is
continued several times or not at all, only the table changes; keys and values are not copied. A
slot that no row uses is free again. With restricted self-attention, a row uses the slots of its
last r tokens only, so M stays about K · r.
"""

import math
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.search.rows import RowGrid

_SLOTS_PER_GROWTH = 32
# Decoding steps for which free slots are searched at once.
_STEPS_PER_SEARCH = 4


@dataclass
class LayerCache:
    """Keys and values of one decoder layer."""

    keys: Tensor  # (B, M, H, d_k) of self-attention
    values: Tensor  # (B, M, H, d_v) of self-attention
    memory_keys: Tensor  # (B, H, S, d_k) of cross-attention, computed once
    memory_values: Tensor  # (B, H, S, d_v) of cross-attention

    @classmethod
    def empty(cls, memory_keys: Tensor, memory_values: Tensor) -> Self:
        """Return a cache without target tokens."""
        # Zeros, because attention also reads masked slots. Uninitialised ones may contain NaN, and
        # a weight of zero times NaN is NaN.
        keys, values = (
            part.new_zeros(part.size(0), _SLOTS_PER_GROWTH, part.size(1), part.size(3))
            for part in (memory_keys, memory_values)
        )
        return cls(keys, values, memory_keys, memory_values)

    def write(self, indices: Tensor, key: Tensor, value: Tensor) -> None:
        """Store `key` (N, H, d_k) and `value` (N, H, d_v) at `indices` (N,) of the B·M slots."""
        self.keys.flatten(0, 1).index_copy_(0, indices, key)
        self.values.flatten(0, 1).index_copy_(0, indices, value)

    def read(self, num_slots: int) -> tuple[Tensor, Tensor]:
        """Return keys (B, H, M', d_k) and values (B, H, M', d_v) of the first M' slots."""
        return self.keys[:, :num_slots].transpose(1, 2), self.values[:, :num_slots].transpose(1, 2)

    def grow(self, added: int) -> None:
        """Add `added` free slots to each sentence."""
        self.keys = F.pad(self.keys, (0, 0, 0, 0, 0, added))
        self.values = F.pad(self.values, (0, 0, 0, 0, 0, added))

    def keep(self, sentences: Tensor) -> None:
        """Keep only the sentences with these indices (B',)."""
        # One tensor after the other: the old one is freed before the next copy.
        self.keys = self.keys.index_select(0, sentences)
        self.values = self.values.index_select(0, sentences)
        self.memory_keys = self.memory_keys.index_select(0, sentences)
        self.memory_values = self.memory_values.index_select(0, sentences)


@dataclass
class StepState:
    """What a decoding step reads, for N rows of B sentences."""

    layers: list[LayerCache]
    source_mask: Tensor  # (B, 1, 1, S) added to scores: 0 at real tokens, else -inf
    grid: RowGrid  # the rows by sentence
    written: Tensor  # (N,) index of the slot of each row's last token in the flattened (B·M) slots
    # (B, 1, K, M') added to scores: 0 for the slots that a row uses, else -inf. No row uses the
    # slots after the first M'.
    mask: Tensor
    position: int | Tensor  # target position of the decoding step; a tensor is (1,)


@dataclass
class DecoderState(StepState):
    """State of the decoder between decoding steps, for N rows of B sentences."""

    position: int
    sentences: Tensor  # (N,) index of the sentence of each row, ascending
    used: Tensor  # (N, M) 0 for the slots that a row uses, else -inf
    # (N, r) slots of each row's last r tokens: column p modulo r has the slot of position p. (N, 0)
    # without restricted self-attention.
    slots: Tensor
    free: Tensor  # (B, F) slots that no row used when they were searched, in ascending order
    num_taken: int = 0  # how many of these have been given to rows
    num_read: int = 0  # M' until `free` is searched again
    most_rows: int = 0  # the largest K so far

    @classmethod
    def start(cls, layers: list[LayerCache], source_mask: Tensor, window: int = 0) -> Self:
        """Return the state before the first decoding step, with one row per sentence.

        The caches are empty. `source_mask` is that of `StepState`, and `window` is r of restricted
        self-attention, or 0 for full attention.
        """
        num_sentences, device = len(source_mask), source_mask.device
        sentences = torch.arange(num_sentences, device=device)
        grid = RowGrid(num_sentences, 1, None)
        used = source_mask.new_full((num_sentences, _SLOTS_PER_GROWTH), -torch.inf)
        void = sentences.new_empty(num_sentences, 0)  # `allocate` sets `written`, `mask` and `free`
        slots = sentences.new_zeros(num_sentences, window)
        return cls(layers, source_mask, grid, void, void, 0, sentences, used, slots, void)

    def allocate(self) -> None:
        """Give each row a free slot of its sentence, and update `written` and `mask`.

        With a window, the slot of a token that leaves the window becomes free.
        """
        grid, window = self.grid, self.slots.size(1)
        if window and self.position >= window:
            column = self.position % window
            self.used.scatter_(1, self.slots[:, column : column + 1], -torch.inf)
        if grid.max_rows > self.most_rows or self.num_taken == self.free.size(1):
            self.most_rows = max(self.most_rows, grid.max_rows)
            self._find_free(_STEPS_PER_SEARCH * self.most_rows)
        free = self.free[:, self.num_taken : self.num_taken + grid.max_rows]  # (B, K)
        # The slots of a sentence, so the rounding of its sums, must not depend on the batch.
        self.num_taken += self.most_rows
        slots = grid.collect(free.unsqueeze(2))  # (N, 1)
        self.used.scatter_(1, slots, 0.0)
        if window:
            self.slots[:, self.position % window] = slots[:, 0]
        self.written = self.sentences * self.used.size(1) + slots[:, 0]
        self.mask = grid.spread(self.used[:, : self.num_read]).unsqueeze(1)

    def _find_free(self, number: int) -> None:
        """Search `number` free slots of each sentence, and add slots if there are not enough."""
        occupied = (self.grid.spread(self.used, -torch.inf) == 0).any(dim=1)  # (B, M)
        missing = int(occupied.sum(dim=1).max()) + number - self.used.size(1)
        if missing > 0:
            added = math.ceil(missing / _SLOTS_PER_GROWTH) * _SLOTS_PER_GROWTH
            self.used = F.pad(self.used, (0, added), value=-torch.inf)
            occupied = F.pad(occupied, (0, added))
            for layer in self.layers:
                layer.grow(added)
        # A stable sort puts the free slots first and keeps their order.
        self.free = occupied.byte().argsort(dim=1, stable=True)[:, :number]
        self.num_taken = 0
        last = occupied.any(dim=0).scatter_(0, self.free.flatten(), True)
        self.num_read = int(last.nonzero().max()) + 1

    def reorder(self, rows: Tensor) -> Self:
        """Select rows in place, and return the state itself.

        `rows` (N',) are the indices of the rows; they are ordered by sentence and may repeat.
        """
        if torch.equal(rows, torch.arange(len(self.sentences), device=rows.device)):
            return self
        self.used = self.used.index_select(0, rows)
        self.slots = self.slots.index_select(0, rows)
        self.sentences = self.sentences.index_select(0, rows)
        num_sentences = len(self.source_mask)
        kept, indices = torch.unique_consecutive(self.sentences, return_inverse=True)
        # Dropping a sentence copies all others, so sentences without rows are dropped in groups.
        if num_sentences - len(kept) >= max(1, num_sentences // 8):
            num_sentences, self.sentences = len(kept), indices
            self.source_mask = self.source_mask.index_select(0, kept)
            self.free = self.free.index_select(0, kept)
            for layer in self.layers:
                layer.keep(kept)
        self.grid = RowGrid.of(self.sentences, num_sentences)
        return self
