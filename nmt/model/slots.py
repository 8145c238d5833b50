"""The slots of a sentence's caches, which its hypotheses share."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.model.rows import RowGrid

_SLOTS_AT_ONCE = 32


@dataclass
class SharedSlots:
    """Which slots of its sentence's caches hold the tokens of each row.

    Most tokens of a beam's hypotheses are the same ones: those before they branched off. Each token
    is kept once, for as long as a row has it; then its slot is free for another. So a row that is
    continued twice, or not at all, costs a row of this table and no copy of keys and values.

    Attributes:
        holds: (N, M) True where a token of the row stands.
    """

    holds: Tensor

    @classmethod
    def none(cls, num_rows: int, device: torch.device | None) -> "SharedSlots":
        """Of rows before their first token."""
        return cls(torch.zeros(num_rows, _SLOTS_AT_ONCE, dtype=torch.bool, device=device))

    @property
    def capacity(self) -> int:
        """M."""
        return self.holds.size(1)

    def take(self, sentences: Tensor, grid: RowGrid) -> tuple[Tensor, Tensor]:
        """Give each row the first free slots of its sentence, one each, for its next token.

        Args:
            sentences: (N,) which one each row belongs to.
            grid: the rows by sentence.

        Returns:
            The slots as places (N,) among all B·M, and the mask (B, 1, K, M') of the slots that
            the rows of each sentence may attend to; behind M' none is in use.
        """
        taken = grid.spread(self.holds).any(dim=1)  # (B, M)
        most = int(taken.sum(dim=1).max()) + grid.num_places
        if most > self.capacity:
            missing = slot_capacity(most) - self.capacity
            self.holds, taken = (F.pad(table, (0, missing)) for table in (self.holds, taken))
        # Stable: of free slots, which are sorted to the front, the first is the first.
        free = taken.byte().argsort(dim=1, stable=True)[:, : grid.num_places]  # (B, K)
        slots = grid.collect(free[..., None])  # (N, 1)
        self.holds.scatter_(1, slots, True)
        mask = grid.spread(self.holds[:, : self._num_used()])[:, None]
        return sentences * self.capacity + slots[:, 0], mask

    def shrink(self) -> None:
        """Forget slots behind the last one in use."""
        self.holds = self.holds[:, : slot_capacity(self._num_used())]

    def keep(self, rows: Tensor) -> None:
        """Keep `rows` (N',): any number of them, in any order, repeats allowed."""
        self.holds = self.holds.index_select(0, rows)

    def add(self, others: "SharedSlots") -> None:
        """Put other rows behind these."""
        capacity = max(self.capacity, others.capacity)
        self.holds = torch.cat(
            [F.pad(slots.holds, (0, capacity - slots.capacity)) for slots in (self, others)]
        )

    def _num_used(self) -> int:
        """Where the last slot in use ends; at least 1."""
        used = self.holds.any(dim=0).nonzero()
        return 1 + int(used.max()) if len(used) else 1


def slot_capacity(most: int) -> int:
    """Slots that caches have when they have grown until `most` fit."""
    return math.ceil(most / _SLOTS_AT_ONCE) * _SLOTS_AT_ONCE
