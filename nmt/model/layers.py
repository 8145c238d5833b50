"""Encoder layer and decoder layer (Vaswani et al. 2017, section 3.1 and Figure 1)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from nmt.config import Activation, ModelConfig, NormPlacement
from nmt.model.attention import MultiHeadAttention
from nmt.model.comparators.experts import Experts
from nmt.model.comparators.window import WindowAttention
from nmt.model.cpu import Dropout, Linear, ReLUDropout
from nmt.model.decoder_state import LayerCache, StepState
from nmt.model.positions import RotaryPositions


class FeedForward(nn.Module):
    """Position-wise feed-forward network (section 3.3, equation 2).

    FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, or with GELU or SiLU instead of max(0, …).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.width, config.feed_forward_width)
        self.activation_name = config.activation.value
        self.activation: nn.Module = ReLUDropout(config.activation_dropout)
        if config.activation is not Activation.relu:
            function = nn.GELU() if config.activation is Activation.gelu else nn.SiLU()
            self.activation = nn.Sequential(function, Dropout(config.activation_dropout))
        self.outer = Linear(config.feed_forward_width, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the network to each position: (…, D) → (…, D)."""
        return self.outer(self.activation(self.inner(hidden)))


def build_feed_forward(config: ModelConfig) -> FeedForward | Experts:
    """Build the feed-forward sublayer: one network, or several experts."""
    if config.num_experts == 1:
        return FeedForward(config)
    return Experts(config.width, [FeedForward(config) for _ in range(config.num_experts)])


def build_self_attention(config: ModelConfig, rotary: RotaryPositions | None) -> MultiHeadAttention:
    """Build a self-attention sublayer, which may be restricted to a window."""
    kind = WindowAttention if config.attention_window else MultiHeadAttention
    return kind(config, rotary)


def _rounded(hidden: Tensor) -> Tensor:
    """In compiled layers with autocast, store the hidden state in the precision of the products.

    Sums and norms are computed in float32. Where they are not compiled, rounding takes a kernel.
    """
    kind = hidden.device.type
    if torch.compiler.is_compiling() and torch.is_autocast_enabled(kind):
        return hidden.to(torch.get_autocast_dtype(kind))
    return hidden


class Residual(nn.Module):
    """Residual connection, layer normalization and dropout around a sublayer.

    Post-norm is the paper's LayerNorm(x + Sublayer(x)); pre-norm is x + Sublayer(LayerNorm(x))
    (Xiong et al. 2020). Dropout is applied to the term that is added to x (section 5.4).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.is_pre_norm = config.norm is NormPlacement.pre

    def forward(self, hidden: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a sublayer and its residual connection: (B, L, D) → (B, L, D)."""
        if self.is_pre_norm:
            return _rounded(hidden + self.dropout(sublayer(self.norm(hidden))))
        return _rounded(self.norm(hidden + self.dropout(sublayer(hidden))))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None) -> None:
        super().__init__()
        self.self_attention = build_self_attention(config, rotary)
        self.feed_forward = build_feed_forward(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, hidden: Tensor, source_mask: Tensor, positions: int | Tensor = 0) -> Tensor:
        """Apply the layer: (B, S, D) → (B, S, D).

        `source_mask` is (B, 1, 1, S), or (B, 1, S, S) in packed rows, which also need the
        `positions` (B, S) in the sentences.
        """
        hidden = self.self_attention_residual(
            hidden, lambda h: self.self_attention(h, h, source_mask, first=positions)
        )
        return self.feed_forward_residual(hidden, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder output, then feed-forward."""

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None) -> None:
        super().__init__()
        self.self_attention = build_self_attention(config, rotary)
        self.cross_attention = MultiHeadAttention(config)
        self.feed_forward = build_feed_forward(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        target_mask: Tensor | None = None,
        positions: int | Tensor = 0,
    ) -> Tensor:
        """Decode all target positions at once: (B, T, D) → (B, T, D).

        `memory` is (B, S, D), and `source_mask` is (B, 1, 1, S). Padding is at the end of a target,
        so the causal mask also hides the padding from all real positions. In packed rows,
        `source_mask` is (B, 1, T, S), `target_mask` (B, 1, T, T) is the causal mask within each
        sentence, and `positions` (B, T) are those in the sentences.
        """
        is_causal = target_mask is None
        hidden = self.self_attention_residual(
            hidden, lambda h: self.self_attention(h, h, target_mask, is_causal, positions)
        )
        hidden = self.cross_attention_residual(
            hidden, lambda h: self.cross_attention(h, memory, source_mask)
        )
        return self.feed_forward_residual(hidden, self.feed_forward)

    def step(self, hidden: Tensor, cache: LayerCache, state: StepState) -> Tensor:
        """Decode one target position of every row: (N, D) → (N, D).

        The rows of a sentence share keys and values, so they are the K queries of one attention.
        """

        def attend(
            attention: MultiHeadAttention, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor
        ) -> Tensor:
            queries = attention.split_heads(state.grid.spread(query))  # (B, H, K, d_k)
            heads = attention.attend(queries, keys, values, mask)  # (B, K, H · d_v)
            return attention.output(state.grid.collect(heads))

        def self_attention(inputs: Tensor) -> Tensor:
            query, key, value = self.self_attention.project_self(inputs[:, None], state.position)
            cache.write(state.written, key[:, :, 0], value[:, :, 0])
            keys, values = cache.read(state.mask.size(-1))
            return attend(self.self_attention, query.flatten(1), keys, values, state.mask)

        def cross_attention(inputs: Tensor) -> Tensor:
            query = self.cross_attention.query(inputs)
            keys, values = cache.memory_keys, cache.memory_values
            return attend(self.cross_attention, query, keys, values, state.source_mask)

        hidden = self.self_attention_residual(hidden, self_attention)
        hidden = self.cross_attention_residual(hidden, cross_attention)
        return self.feed_forward_residual(hidden, self.feed_forward)
