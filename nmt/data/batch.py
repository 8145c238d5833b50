"""A micro-batch of padded or packed ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nmt.data.packing import pack
from nmt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Segments:
    """Where the pairs of packed rows are; see `nmt.data.packing.pack`."""

    source: Tensor  # (B, S) number of the pair in its row, from 1; 0 at padding
    source_positions: Tensor  # (B, S) position in the sentence
    target: Tensor  # (B, T)
    target_positions: Tensor  # (B, T)


@dataclass(frozen=True)
class Batch:
    """B pairs, padded on the right; or B rows of packed pairs."""

    source: Tensor  # (B, S) ids, EOS included
    source_mask: Tensor  # (B, S) True where a source token may be attended to
    target_input: Tensor  # (B, T) `BOS y…`
    target_output: Tensor  # (B, T) `y… EOS`
    target_mask: Tensor  # (B, T) True where target_output is a token and not padding
    num_target_tokens: int  # tokens of target_output, without padding
    segments: Segments | None = None  # of packed rows

    @cached_property
    def target_indices(self) -> Tensor:
        """Indices (num_target_tokens,) of the target tokens in the flattened (B · T) matrix.

        Their number is known in advance, so computing them does not wait for a GPU.
        """
        return self.target_mask.flatten().nonzero_static(size=self.num_target_tokens)[:, 0]

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the batch."""
        return [
            *(self.source, self.source_mask),
            *(self.target_input, self.target_output, self.target_mask),
            *(vars(self.segments).values() if self.segments else ()),
        ]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """Return a batch of the results of a function of each tensor."""
        source, source_mask, inputs, outputs, mask, *rest = map(function, self.tensors)
        segments = Segments(*rest) if self.segments else None
        return Batch(source, source_mask, inputs, outputs, mask, self.num_target_tokens, segments)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device."""
        return self.mapped(lambda tensor: tensor.to(device, non_blocking=True))


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


def collate_rows(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    rows: np.ndarray,
    shape: tuple[int, int, int],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
) -> Batch:
    """Pack (source, target) pairs of ids into a batch of a given shape (B, S, T).

    `rows` has the row of each pair, ascending. BOS and EOS are added here.
    """
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    num_rows, source_length, target_length = shape
    of_source, of_target = (num_rows, source_length), (num_rows, target_length)
    pad_id, eos_id = source_tokenizer.pad_id, source_tokenizer.eos_id
    source, *source_segments = pack(sources, rows, of_source, pad_id, after=eos_id)
    pad_id, eos_id = target_tokenizer.pad_id, target_tokenizer.eos_id
    bos_id = target_tokenizer.bos_id
    target_input, *target_segments = pack(targets, rows, of_target, pad_id, before=bos_id)
    target_output, *_ = pack(targets, rows, of_target, pad_id, after=eos_id)
    segments = Segments(*source_segments, *target_segments)
    target_mask = segments.target > 0
    num_target_tokens = int(target_mask.sum())
    source_mask = segments.source > 0
    return Batch(
        source, source_mask, target_input, target_output, target_mask, num_target_tokens, segments
    )
