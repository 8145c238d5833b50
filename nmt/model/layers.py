"""Encoder layer and decoder layer (Vaswani et al. 2017, section 3.1 and Figure 1)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import Activation, ModelConfig, NormPlacement
from nmt.model.attention import KeyValueCache, MultiHeadAttention, reference_attention
from nmt.model.dropout import Dropout
from nmt.model.linear import Linear
from nmt.model.positions import RotaryRotation
from nmt.model.rows import RowGrid


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), or with GELU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.width, config.feed_forward_width)
        self.outer = Linear(config.feed_forward_width, config.width)
        self.is_relu = config.activation is Activation.relu
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        inner = self.inner(hidden)  # (…, F)
        inner = self.dropout.after_relu(inner) if self.is_relu else self.dropout(F.gelu(inner))
        outer: Tensor = self.outer(inner)  # (…, D)
        return outer


class Residual(nn.Module):
    """A sublayer inside its residual connection and layer normalisation.

    Post-norm is the paper's LayerNorm(x + Sublayer(x)); pre-norm is x + Sublayer(LayerNorm(x))
    (Xiong et al. 2020). Dropout falls on the sublayer's output (section 5.4).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.is_pre_norm = config.norm is NormPlacement.pre

    def forward(self, hidden: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) → (B, L, D)."""
        if self.is_pre_norm:
            pre: Tensor = hidden + self.dropout(sublayer(self.norm(hidden)))
            return pre
        post: Tensor = self.norm(hidden + self.dropout(sublayer(hidden)))
        return post


def _attention(config: ModelConfig, rotation: RotaryRotation | None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        config.num_heads,
        config.head_key_width,
        config.head_value_width,
        config.attention_dropout,
        rotation,
    )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, rotation: RotaryRotation | None) -> None:
        super().__init__()
        self.self_attention = _attention(config, rotation)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, D) → (B, S, D); `mask` is (B, 1, 1, S), True where one may attend."""
        hidden = self.self_attention_residual(hidden, lambda h: self.self_attention(h, h, mask))
        encoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return encoded


@dataclass(frozen=True)
class LayerState:
    """What one decoder layer needs of the decoder's state for one step of N rows.

    Attributes:
        cache: self-attention keys and values of earlier positions.
        places: (N,) where in the cache those of this position go.
        cache_mask: (B, 1, K, slots) True where one may attend.
        memory_keys: (B, H, S, d_k).
        memory_values: (B, H, S, d_v).
        memory_mask: (B, 1, 1, S), True where one may attend.
        grid: the rows by sentence.
        positions: the position that is decoded: one for all rows, or (N,).
        coverage: (N, S) that the attention to each source token is added to; None where it is not
            asked for.
    """

    cache: KeyValueCache
    places: Tensor
    cache_mask: Tensor
    memory_keys: Tensor
    memory_values: Tensor
    memory_mask: Tensor
    grid: RowGrid
    positions: int | Tensor
    coverage: Tensor | None = None


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's memory, then feed-forward."""

    def __init__(self, config: ModelConfig, rotation: RotaryRotation | None) -> None:
        super().__init__()
        self.self_attention = _attention(config, rotation)
        self.cross_attention = _attention(config, None)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, hidden: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        """All target positions at once: (B, T, D) → (B, T, D).

        Padding stands at the end of a target, so the causal mask alone keeps it from every real
        position.
        """
        hidden = self.self_attention_residual(
            hidden, lambda h: self.self_attention(h, h, is_causal=True)
        )
        hidden = self.cross_attention_residual(
            hidden, lambda h: self.cross_attention(h, memory, memory_mask)
        )
        decoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return decoded

    def step(self, hidden: Tensor, state: LayerState) -> Tensor:
        """One target position of every row: (N, 1, D) → (N, 1, D); the cache takes it in."""

        # The rows of a sentence share its memory and its cache: they attend as queries of one row.
        grid = state.grid

        def attend_to_itself(position: Tensor) -> Tensor:
            attention = self.self_attention
            query, key, value = attention.project_itself(position, state.positions)
            state.cache.put(state.places, key, value)
            queries = attention.split_heads(grid.spread(query.flatten(1)))  # (B, H, K, d_k)
            keys, values = state.cache.first(state.cache_mask.size(-1))
            heads = attention.mix(queries, keys, values, state.cache_mask)  # (B, K, H · d_v)
            attended: Tensor = attention.output(grid.collect(heads)[:, None])
            return attended

        def attend_to_memory(position: Tensor) -> Tensor:
            cross = self.cross_attention
            queries = cross.split_heads(grid.spread(cross.query(position[:, 0])))
            memory = state.memory_keys, state.memory_values, state.memory_mask
            heads = cross.mix(queries, *memory)
            if state.coverage is not None:
                weights = reference_attention(queries, *memory)[1].float().mean(dim=1)  # (B, K, S)
                state.coverage.add_(grid.collect(weights))
            attended: Tensor = cross.output(grid.collect(heads)[:, None])
            return attended

        hidden = self.self_attention_residual(hidden, attend_to_itself)
        hidden = self.cross_attention_residual(hidden, attend_to_memory)
        decoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return decoded
