"""A micro-batch of padded or packed ids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        own = self.source, self.source_mask, self.target_input, self.target_output, self.target_mask
        return [*own, *(vars(self.segments).values() if self.segments else ())]

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
    length = max(map(len, sequences), default=0) + (before >= 0) + (after >= 0)
    rows = np.arange(len(sequences))
    ids, segments, _ = pack(sequences, rows, (len(rows), length), pad_id, before, after)
    return ids, segments > 0


def collate(
    pairs: Sequence[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
) -> Batch:
    """Make a batch of (source, target) pairs of ids; BOS and EOS are added here."""
    source, target = (1 + max(len(pair[side]) for pair in pairs) for side in (0, 1))
    rows, shape = np.arange(len(pairs)), (len(pairs), source, target)
    packed = collate_rows(pairs, rows, shape, source_tokenizer, target_tokenizer)
    return replace(packed, segments=None)


def collate_rows(
    pairs: Sequence[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]],
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
    mask = segments.target > 0
    total = int(mask.sum())
    return Batch(source, segments.source > 0, target_input, target_output, mask, total, segments)
