"""Restricted self-attention: each position attends to r positions (Vaswani et al. 2017, section 4).

In the encoder, a position attends to itself, r // 2 positions before it and the others after it. In
the decoder, it attends to itself and the r - 1 positions before it. A sequence of length L is split
into W = ⌈L / r⌉ blocks. The r queries of a block attend to 2r keys only, so attention takes
O(r · L · D) operations instead of O(L² · D). Sequences of up to r positions need no blocks.

A padding position also attends to itself: its window may have no real token, and the softmax of no
scores is NaN.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config import ModelConfig
from nmt.model.attention import MultiHeadAttention, attention_weights
from nmt.model.positions import RotaryPositions


class WindowAttention(MultiHeadAttention):
    """Self-attention in which each position attends to `model.attention_window` positions.

    `mask` is (B, 1, 1, L), or None if all tokens are real.
    """

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None) -> None:
        super().__init__(config, rotary)
        self.window = config.attention_window

    def forward(
        self,
        queries: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        first: int | Tensor = 0,
    ) -> Tensor:
        """Attend within the window: (B, L, D) → (B, L, D)."""
        projected = self.project(queries, memory, first)
        return self.output(self.attend_near(*projected, mask, is_causal))

    def attend_near(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Compute the heads, concatenated: (B, L, H · d_v)."""
        length = query.size(2)
        if length <= self.window:
            near = window_mask(length, self.window, is_causal, mask, query.device)
            return self.attend(query, key, value, near)
        blocks = split_blocks(query, key, value, mask, self.window, is_causal)
        heads = self.attend(*blocks)  # (B·W, r, H · d_v), W blocks
        return heads.reshape(len(query), -1, heads.size(-1))[:, :length]

    def weights(
        self,
        queries: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        first: int | Tensor = 0,
    ) -> Tensor:
        """Compute the (B, H, L, L) attention weights of `forward`."""
        query, key, _ = self.project(queries, memory, first)
        near = window_mask(query.size(2), self.window, is_causal, mask, query.device)
        return attention_weights(query, key, near)


def num_before(window: int, is_causal: bool) -> int:
    """Return how many of the r positions are before the position that attends to them."""
    return window - 1 if is_causal else window // 2


def num_scores(length: int, window: int) -> int:
    """Return the number of products of a query and a key that a head of self-attention computes.

    `length` is L, and `window` is r, or 0 for full attention.
    """
    if not window or length <= window:
        return length**2
    return -(-length // window) * 2 * window**2


def window_mask(
    length: int,
    window: int,
    is_causal: bool,
    mask: Tensor | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Return the mask, (L, L) or (B, 1, L, L), of the positions that each position attends to.

    `window` is r; if `is_causal`, no position attends to later ones. `mask` is (B, 1, 1, L), True
    at real tokens, or None if all tokens are real.
    """
    positions = torch.arange(length, device=device)
    before = num_before(window, is_causal)
    index = positions - positions[:, None] + before  # (L, L)
    return _attended(index, window, before, True if mask is None else mask)


def _attended(index: Tensor, window: int, before: int, is_real: Tensor | bool) -> Tensor:
    """Return the mask of the keys to which each query attends.

    `index` is the index of each key in the window of each query. A query attends to the real tokens
    of its window, and to its own position, which has the index `before`.
    """
    return (index >= 0) & (index < window) & (is_real | (index == before))


def split_blocks(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, window: int, is_causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split (B, H, L, E) queries, keys and values into blocks that attend as separate sentences.

    `window`, `is_causal` and `mask` are those of `window_mask`.

    Returns:
        Queries (B·W, H, r, d_k), keys (B·W, H, 2r, d_k), values (B·W, H, 2r, d_v) and the mask
        (B·W, 1, r, 2r) of the keys to which each query attends.
    """
    length, before = query.size(2), num_before(window, is_causal)
    num_blocks = -(-length // window)  # W
    added = num_blocks * window - length

    def blocks(inputs: Tensor, left: int, right: int) -> Tensor:
        padded = F.pad(inputs, (0, 0, left, right))
        shape = *padded.shape[:2], -1, window, padded.size(3)
        return padded.reshape(shape).transpose(1, 2)  # (B, W, H, r, E)

    def with_next(inputs: Tensor) -> Tensor:
        # The 2r keys begin `before` positions before the r queries, so key j has index j - i in the
        # window of query i.
        found = blocks(inputs, before, added + window - before)  # (B, W + 1, H, r, E)
        return torch.cat((found[:, :-1], found[:, 1:]), dim=3).flatten(0, 1)  # (B·W, H, 2r, E)

    if mask is None:
        mask = query.new_ones((len(query), 1, 1, length), dtype=torch.bool)
    is_real = with_next(mask.transpose(2, 3)).transpose(2, 3)  # (B·W, 1, 1, 2r)
    keys = torch.arange(2 * window, device=query.device)
    attended = _attended(keys - keys[:window, None], window, before, is_real)  # (B·W, 1, r, 2r)
    return blocks(query, 0, added).flatten(0, 1), with_next(key), with_next(value), attended
