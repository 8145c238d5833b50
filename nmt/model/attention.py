"""Multi-head attention (Vaswani et al. 2017, section 3.2)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import ModelConfig
from nmt.model.cpu import Dropout, Linear, use_cpu_operators
from nmt.model.positions import RotaryPositions

# cuDNN's attention, which torch prefers on recent GPUs, takes tens of milliseconds to prepare each
# new shape, and batches have many shapes.
torch.backends.cuda.enable_cudnn_sdp(False)


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Compute softmax(Q K^T / sqrt(d_k)), the weights of the paper's equation 1.

    Args:
        query: (B, H, T, d_k).
        key: (B, H, S, d_k).
        mask: broadcastable to (B, H, T, S), True = attend.

    Returns:
        (B, H, T, S), each row of which sums to one.
    """
    similarity = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    if mask is not None:
        similarity = similarity.masked_fill(~mask, -torch.inf)
    return similarity.softmax(dim=-1)


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return the (T, T) mask by which position t attends to positions 0 … t (section 3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def added_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a mask is True, else -inf: a bool mask is converted by each attention."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)


def same_segment(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the mask (B, 1, T, S) of packed rows by which pairs attend to themselves only.

    `queries` (B, T) and `keys` (B, S) are the segment of each position; padding is a segment too.
    """
    return (queries[:, :, None] == keys[:, None])[:, None]


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2.2).

    MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O.

    Args:
        config: number of heads, widths and dropout.
        rotary: rotates queries and keys of self-attention; None for no rotation.
    """

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None = None) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        key_width = config.num_heads * config.head_key_width  # H · d_k
        value_width = config.num_heads * config.head_value_width  # H · d_v
        self.packed_widths = (2 * key_width, value_width)  # queries and keys, values
        self.dropout = Dropout(config.attention_dropout)
        self.rotary = rotary
        self.query = Linear(config.width, key_width)  # W^Q of all heads
        self.key = Linear(config.width, key_width)  # W^K
        self.value = Linear(config.width, value_width)  # W^V
        self.output = Linear(value_width, config.width)  # W^O
        # Computes queries, keys and values of self-attention in one product. Only the copies of
        # `DecodingWeights` have this layer; they lack `query`, `key` and `value`.
        self.packed: nn.Module | None = None

    def forward(
        self,
        queries: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        first: int | Tensor = 0,
    ) -> Tensor:
        """Attend from (B, T, D) queries to (B, S, D) memory.

        Args:
            queries: input of the queries.
            memory: input of the keys and values; `queries` itself in self-attention.
            mask: broadcastable to (B, H, T, S), True = attend.
            is_causal: position t attends to positions 0 … t only; `mask` must be None.
            first: first position in self-attention, or all positions (B, L); used for rotation.

        Returns:
            (B, T, D).
        """
        query, key, value = self.project(queries, memory, first)
        return self.output(self.attend(query, key, value, mask, is_causal))

    def weights(
        self,
        queries: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
        first: int | Tensor = 0,
    ) -> Tensor:
        """Compute the (B, H, T, S) attention weights of `forward`."""
        query, key, _ = self.project(queries, memory, first)
        if is_causal:
            mask = causal_mask(query.size(2), query.device)
        return attention_weights(query, key, mask)

    def project_self(
        self, hidden: Tensor, first: int | Tensor = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Project the input (B, L, D) of self-attention; for `first`, see `RotaryPositions`.

        Returns:
            Queries (B, H, L, d_k), keys (B, H, L, d_k) and values (B, H, L, d_v).
        """
        if self.packed is not None:
            both, values = self.packed(hidden).split(self.packed_widths, dim=-1)
            both = self.split_heads(both, 2)  # queries and keys, (B, 2 · H, L, d_k)
            if self.rotary is not None:
                both = self.rotary(both, first)
            query, key = both.chunk(2, dim=1)
            return query, key, self.split_heads(values)
        projected: tuple[Tensor, ...]
        if torch.compiler.is_compiling():
            projected = _in_one_product(hidden, self.query, self.key, self.value)
        else:
            projected = self.query(hidden), self.key(hidden), self.value(hidden)
        query, key, value = (self.split_heads(part) for part in projected)
        if self.rotary is not None:
            query, key = self.rotary(query, first), self.rotary(key, first)
        return query, key, value

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project the encoder output (B, S, D) to keys (B, H, S, d_k) and values (B, H, S, d_v)."""
        if torch.compiler.is_compiling():
            keys, values = _in_one_product(memory, self.key, self.value)
        else:
            keys, values = self.key(memory), self.value(memory)
        return self.split_heads(keys), self.split_heads(values)

    def project(
        self, queries: Tensor, memory: Tensor, first: int | Tensor = 0
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Project the inputs of `forward` to queries, keys and values of all heads."""
        if queries is memory:
            return self.project_self(queries, first)
        return self.split_heads(self.query(queries)), *self.project_memory(memory)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Compute softmax(Q K^T / sqrt(d_k)) V of each head, concatenated: (B, T, H · d_v)."""
        rate = self.dropout.p if self.training else 0.0
        if rate and use_cpu_operators(query):
            # torch has no fused CPU kernel for attention with dropout, and torch's dropout is slow.
            mask = causal_mask(query.size(2)) if is_causal else mask
            heads = self.dropout(attention_weights(query, key, mask)) @ value
        else:
            heads = F.scaled_dot_product_attention(query, key, value, mask, rate, is_causal)
        return heads.transpose(1, 2).flatten(2)  # (B, T, H · d_v)

    def split_heads(self, projected: Tensor, number: int = 1) -> Tensor:
        """Split n = `number` vectors into heads: (B, L, n · H · E) → (B, n · H, L, E)."""
        batch_size, length, _ = projected.shape
        return projected.view(batch_size, length, number * self.num_heads, -1).transpose(1, 2)


def joined(*layers: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the layer that computes the results of all, side by side."""
    return torch.cat([one.weight for one in layers]), torch.cat([one.bias for one in layers])


def _in_one_product(inputs: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """Apply linear layers to the same inputs (…, D), which is faster on GPUs."""
    widths = [layer.out_features for layer in layers]
    return torch.split(F.linear(inputs, *joined(*layers)), widths, dim=-1)
