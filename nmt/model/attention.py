"""Multi-head attention (Vaswani et al. 2017, section 3.2) and its key-value cache."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.model.linear import Linear
from nmt.model.positions import RotaryRotation


def reference_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k)) V, the paper's equation 1, step by step.

    For reading, for the tests and for attention maps; training and decoding compute the same by
    `scaled_dot_product_attention`.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        value: (B, H, S, d_v).
        mask: broadcastable to (B, H, T, S), True where a query may attend.

    Returns:
        The (B, H, T, d_v) output and the (B, H, T, S) weights, each row of which sums to one.
    """
    similarity = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    if mask is not None:
        similarity = similarity.masked_fill(~mask, -torch.inf)
    weights = similarity.softmax(dim=-1)
    return weights @ value, weights


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """(T, T) mask: position t may attend to positions 0 … t (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


_NORM_EPSILON = 1e-5  # that of the layer normalisations

CACHE_SLOTS = 32
"""Slots that a cache grows by."""


class _Slots:
    """Vectors of all rows, one slot a position; the slots come first in memory.

    What is filled is then one block: reordering copies it once, and nothing else. It is copied to
    and fro between two buffers: memory that is taken anew costs more than the copy.

    Args:
        num_rows: N.
        num_heads: H.
        width: E.
        like: a tensor of the type and on the device to use.

    Attributes:
        vectors: (capacity, N, H, E).
    """

    def __init__(self, num_rows: int, num_heads: int, width: int, like: Tensor) -> None:
        self.vectors = like.new_empty(CACHE_SLOTS, num_rows, num_heads, width)
        self._buffer = self.vectors.flatten()
        self._other = like.new_empty(0)

    def put(self, slot: int, vectors: Tensor) -> None:
        """Fill a slot with (N, H, 1, E)."""
        if slot == len(self.vectors):
            self._replace(F.pad(self.vectors, (0, 0) * 3 + (0, CACHE_SLOTS)))
        self.vectors[slot] = vectors[:, :, 0]

    def reorder(self, rows: Tensor, num_filled: int) -> None:
        """Keep `rows`, (N',)."""
        shape = (len(self.vectors), len(rows), *self.vectors.shape[2:])
        if self._other.numel() < math.prod(shape):
            self._other = self._buffer.new_empty(math.prod(shape))
        kept = self._other[: math.prod(shape)].view(shape)
        torch.index_select(self.vectors[:num_filled], 1, rows, out=kept[:num_filled])
        self._buffer, self._other = self._other, self._buffer
        self.vectors = kept

    def add_rows(self, count: int) -> None:
        """Put rows of zeros behind the present ones."""
        self._replace(F.pad(self.vectors, (0, 0, 0, 0, 0, count)))

    def drop(self, count: int) -> None:
        """Forget the first slots."""
        self._replace(self.vectors[count:].clone())

    def _replace(self, vectors: Tensor) -> None:
        self.vectors, self._buffer = vectors, vectors.flatten()


class KeyValueCache:
    """Keys and values of the positions decoded so far, one slot a step.

    Args:
        num_rows: N.
        num_heads: H.
        key_width: d_k.
        value_width: d_v.
        like: a tensor of the type and on the device to use.

    Attributes:
        length: filled slots.
    """

    def __init__(
        self, num_rows: int, num_heads: int, key_width: int, value_width: int, like: Tensor
    ) -> None:
        self._keys = _Slots(num_rows, num_heads, key_width, like)
        self._values = _Slots(num_rows, num_heads, value_width, like)
        self.length = 0

    @property
    def keys(self) -> Tensor:
        """(N, H, length, d_k)."""
        return self._keys.vectors[: self.length].permute(1, 2, 0, 3)

    @property
    def values(self) -> Tensor:
        """(N, H, length, d_v)."""
        return self._values.vectors[: self.length].permute(1, 2, 0, 3)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add (N, H, 1, E) of the next position; returns all keys and values so far."""
        self._keys.put(self.length, key)
        self._values.put(self.length, value)
        self.length += 1
        return self.keys, self.values

    def reorder(self, rows: Tensor) -> None:
        """Keep `rows` (any number of them, in any order, repeats allowed)."""
        self._keys.reorder(rows, self.length)
        self._values.reorder(rows, self.length)

    def add_rows(self, count: int) -> None:
        """Put rows behind the present ones, whose filled slots are zeros."""
        self._keys.add_rows(count)
        self._values.add_rows(count)

    def drop_slots(self, count: int) -> None:
        """Forget the first slots."""
        self._keys.drop(count)
        self._values.drop(count)
        self.length -= count


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (section 3.2.2).

    Args:
        width: D.
        num_heads: H.
        key_width: d_k of one head.
        value_width: d_v of one head.
        dropout: rate on the attention weights.
        rotation: turns queries and keys by their position; None leaves them.
        qk_norm: whether queries and keys are normalised head by head before that (Henry et al.
            2020, "Query-Key Normalization for Transformers"; here with the factor 1 / sqrt(d_k) and
            a learned scale a number).
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        key_width: int,
        value_width: int,
        dropout: float,
        rotation: RotaryRotation | None = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.widths = (num_heads * key_width, num_heads * key_width, num_heads * value_width)
        self.dropout = dropout
        self.rotation = rotation
        self.query = Linear(width, num_heads * key_width)  # W^Q of all heads side by side
        self.key = Linear(width, num_heads * key_width)  # W^K
        self.value = Linear(width, num_heads * value_width)  # W^V
        self.output = Linear(num_heads * value_width, width)  # W^O
        self.query_norm = nn.RMSNorm(key_width, _NORM_EPSILON) if qk_norm else nn.Identity()
        self.key_norm = nn.RMSNorm(key_width, _NORM_EPSILON) if qk_norm else nn.Identity()

    def forward(
        self, queries: Tensor, memory: Tensor, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Let each of (B, T, D) queries attend to (B, S, D) memory.

        Args:
            queries: what attends.
            memory: what is attended to; `queries` itself in self-attention.
            mask: broadcastable to (B, H, T, S), True where a query may attend.
            is_causal: position t attends to 0 … t only; not together with `mask`.

        Returns:
            (B, T, D).
        """
        if queries is memory:
            query, key, value = self.project_itself(queries, first=0)
        else:
            query = self.project_query(queries, first=0)
            key, value = self.project_memory(memory, first=0)
        attended: Tensor = self.output(self.mix(query, key, value, mask, is_causal))
        return attended

    def weights(self, queries: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """The (B, H, T, S) attention weights of `forward`, by the reference implementation."""
        query = self.project_query(queries, first=0)
        key, value = self.project_memory(memory, first=0)
        return reference_attention(query, key, value, mask)[1]

    def project_query(self, queries: Tensor, first: int | Tensor) -> Tensor:
        """(B, T, D) → (B, H, T, d_k) for positions first, first + 1, …; `first` may be (B,)."""
        return self.as_queries(self.query(queries), first)

    def project_memory(self, memory: Tensor, first: int | Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, D) → keys (B, H, S, d_k) and values (B, H, S, d_v)."""
        return self.as_keys(self.key(memory), first), self.split_heads(self.value(memory))

    def project_itself(self, hidden: Tensor, first: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, L, D) → queries, keys and values of what attends to itself."""
        return self.project_query(hidden, first), *self.project_memory(hidden, first)

    def as_queries(self, projected: Tensor, first: int | Tensor) -> Tensor:
        """What W^Q made, (B, T, H · d_k) → (B, H, T, d_k), normalised and turned."""
        heads: Tensor = self.query_norm(self.split_heads(projected))
        return heads if self.rotation is None else self.rotation(heads, first)

    def as_keys(self, projected: Tensor, first: int | Tensor) -> Tensor:
        """What W^K made, (B, S, H · d_k) → (B, H, S, d_k), normalised and turned."""
        heads: Tensor = self.key_norm(self.split_heads(projected))
        return heads if self.rotation is None else self.rotation(heads, first)

    def mix(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attention over heads, side by side, before W^O: (B, H, T, d_k) → (B, T, H · d_v)."""
        heads = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
        )  # (B, H, T, d_v)
        return heads.transpose(1, 2).flatten(2)

    def split_heads(self, projected: Tensor) -> Tensor:
        """(B, L, H · E) → (B, H, L, E)."""
        batch_size, length, _ = projected.shape
        return projected.view(batch_size, length, self.num_heads, -1).transpose(
            1, 2
        )  # (B, H, L, E)
