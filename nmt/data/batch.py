"""A micro-batch of padded ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """B pairs, padded on the right.

    Attributes:
        source: (B, S) ids, EOS included.
        source_mask: (B, S) True where a source token may be attended to.
        target_input: (B, T) `BOS y…`.
        target_output: (B, T) `y… EOS`.
        target_mask: (B, T) True where target_output is a token and not padding.
        num_target_tokens: tokens of target_output, padding not counted.
    """

    source: Tensor
    source_mask: Tensor
    target_input: Tensor
    target_output: Tensor
    target_mask: Tensor
    num_target_tokens: int

    @cached_property
    def target_places(self) -> Tensor:
        """(tokens,) where the tokens of the target stand in B · T, row after row.

        Their number is known, so nobody waits for a GPU to count them.
        """
        return self.target_mask.flatten().nonzero_static(size=self.num_target_tokens)[:, 0]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(
            self.source.to(device, non_blocking=True),
            self.source_mask.to(device, non_blocking=True),
            self.target_input.to(device, non_blocking=True),
            self.target_output.to(device, non_blocking=True),
            self.target_mask.to(device, non_blocking=True),
            self.num_target_tokens,
        )


@dataclass(frozen=True)
class SpecialIds:
    """The ids that frame a sentence."""

    pad_id: int
    bos_id: int
    eos_id: int


def pad_ids(
    sequences: Sequence[Sequence[int] | np.ndarray], pad_id: int, before: int = -1, after: int = -1
) -> tuple[Tensor, Tensor]:
    """Stack sequences of ids, padded on the right.

    Args:
        sequences: B sequences.
        pad_id: fills the rest of each row.
        before: id put before each sequence; -1 puts none.
        after: id put after each sequence; -1 puts none.

    Returns:
        The (B, L) ids, int64, and the (B, L) mask that is True where a row holds a token.
    """
    extra = (before >= 0) + (after >= 0)
    lengths = np.array([len(ids) + extra for ids in sequences], dtype=np.int64)
    rows = np.full((len(sequences), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    places = np.arange(rows.shape[1])
    mask = places < lengths[:, None]
    is_given = mask.copy()
    if before >= 0:
        rows[:, 0], is_given[:, 0] = before, False
    if after >= 0:
        is_last = places == lengths[:, None] - 1
        rows[is_last], is_given[is_last] = after, False
    if is_given.any():
        rows[is_given] = np.concatenate(sequences, dtype=np.int64, casting="unsafe")
    return torch.from_numpy(rows), torch.from_numpy(mask)


def collate(
    pairs: Sequence[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]],
    source_ids: SpecialIds,
    target_ids: SpecialIds,
) -> Batch:
    """Make a batch of (source, target) ids that carry neither BOS nor EOS."""
    source, source_mask = pad_ids(
        [source for source, _ in pairs], source_ids.pad_id, after=source_ids.eos_id
    )
    targets = [target for _, target in pairs]
    target_input, target_mask = pad_ids(targets, target_ids.pad_id, before=target_ids.bos_id)
    target_output, _ = pad_ids(targets, target_ids.pad_id, after=target_ids.eos_id)
    return Batch(
        source, source_mask, target_input, target_output, target_mask, int(target_mask.sum())
    )
