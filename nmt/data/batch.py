"""A micro-batch of padded ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nmt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Batch:
    """B pairs, padded on the right."""

    source: Tensor  # (B, S) ids, EOS included
    source_mask: Tensor  # (B, S) True where a source token may be attended to
    target_input: Tensor  # (B, T) `BOS y…`
    target_output: Tensor  # (B, T) `y… EOS`
    target_mask: Tensor  # (B, T) True where target_output is a token and not padding
    num_target_tokens: int  # tokens of target_output, without padding

    @cached_property
    def target_indices(self) -> Tensor:
        """Indices (num_target_tokens,) of the target tokens in the flattened (B · T) matrix.

        Their number is known in advance, so computing them does not wait for a GPU.
        """
        return self.target_mask.flatten().nonzero_static(size=self.num_target_tokens)[:, 0]

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device."""
        return Batch(
            self.source.to(device, non_blocking=True),
            self.source_mask.to(device, non_blocking=True),
            self.target_input.to(device, non_blocking=True),
            self.target_output.to(device, non_blocking=True),
            self.target_mask.to(device, non_blocking=True),
            self.num_target_tokens,
        )


def pad_ids(
    sequences: Sequence[Sequence[int] | np.ndarray], pad_id: int, before: int = -1, after: int = -1
) -> tuple[Tensor, Tensor]:
    """Stack B sequences of ids, padded on the right.

    The ids `before` and `after` are put before and after each sequence; -1 means none.

    Returns:
        The (B, L) ids, int64, and the (B, L) mask, False at padding.
    """
    first, extra = int(before >= 0), (before >= 0) + (after >= 0)
    lengths = np.array([len(ids) + extra for ids in sequences], dtype=np.int64)
    rows = np.full((len(sequences), int(lengths.max(initial=0))), pad_id, dtype=np.int64)
    for row, ids in zip(rows, sequences, strict=True):
        row[first : first + len(ids)] = ids
    if before >= 0:
        rows[:, 0] = before
    if after >= 0:
        rows[np.arange(len(rows)), lengths - 1] = after
    mask = np.arange(rows.shape[1]) < lengths[:, None]
    return torch.from_numpy(rows), torch.from_numpy(mask)


def collate(
    pairs: Sequence[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
) -> Batch:
    """Make a batch of (source, target) pairs of ids; BOS and EOS are added here."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    pad_id = target_tokenizer.pad_id
    source, source_mask = pad_ids(sources, source_tokenizer.pad_id, after=source_tokenizer.eos_id)
    target_input, target_mask = pad_ids(targets, pad_id, before=target_tokenizer.bos_id)
    target_output, _ = pad_ids(targets, pad_id, after=target_tokenizer.eos_id)
    return Batch(
        source, source_mask, target_input, target_output, target_mask, int(target_mask.sum())
    )
