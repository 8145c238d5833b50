"""Encoder layer and decoder layer (Vaswani et al. 2017, section 3.1 and Figure 1)."""

from collections.abc import Callable

from torch import Tensor, nn

from nmt.config import Activation, ModelConfig, NormPlacement
from nmt.model.attention import MultiHeadAttention
from nmt.model.cpu import Dropout, Linear, ReLUDropout
from nmt.model.decoder_state import DecoderState, LayerCache
from nmt.model.positions import RotaryPositions


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2 (section 3.3, equation 2), or with GELU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.width, config.feed_forward_width)
        self.activation: nn.Module = ReLUDropout(config.activation_dropout)
        if config.activation is Activation.gelu:
            self.activation = nn.Sequential(nn.GELU(), Dropout(config.activation_dropout))
        self.outer = Linear(config.feed_forward_width, config.width)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        outer: Tensor = self.outer(self.activation(self.inner(hidden)))
        return outer


class Residual(nn.Module):
    """A sublayer with its residual connection, layer normalization and dropout.

    Post-norm is the paper's LayerNorm(x + Sublayer(x)); pre-norm is x + Sublayer(LayerNorm(x))
    (Xiong et al. 2020). Dropout is applied to the output of the sublayer (section 5.4).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.is_pre_norm = config.norm is NormPlacement.pre

    def forward(self, hidden: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(B, L, D) → (B, L, D)."""
        summed = hidden + self.dropout(sublayer(self.sublayer_input(hidden)))
        output: Tensor = summed if self.is_pre_norm else self.norm(summed)
        return output

    def sublayer_input(self, hidden: Tensor) -> Tensor:
        """Return the input of the sublayer, (B, L, D)."""
        normed: Tensor = self.norm(hidden) if self.is_pre_norm else hidden
        return normed


def _attention(config: ModelConfig, rotary: RotaryPositions | None = None) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.width,
        config.num_heads,
        config.head_key_width,
        config.head_value_width,
        config.attention_dropout,
        rotary,
    )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None) -> None:
        super().__init__()
        self.self_attention = _attention(config, rotary)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, hidden: Tensor, source_mask: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D); `source_mask` is (B, 1, 1, S)."""
        hidden = self.self_attention_residual(
            hidden, lambda h: self.self_attention(h, h, source_mask)
        )
        encoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return encoded


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the encoder output, then feed-forward."""

    def __init__(self, config: ModelConfig, rotary: RotaryPositions | None) -> None:
        super().__init__()
        self.self_attention = _attention(config, rotary)
        self.cross_attention = _attention(config)
        self.feed_forward = FeedForward(config)
        self.self_attention_residual = Residual(config)
        self.cross_attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, hidden: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Decode all target positions at once: (B, T, D) → (B, T, D).

        Padding is at the end of a target, so the causal mask hides it from all real positions.
        """
        hidden = self.self_attention_residual(
            hidden, lambda h: self.self_attention(h, h, is_causal=True)
        )
        hidden = self.cross_attention_residual(
            hidden, lambda h: self.cross_attention(h, memory, source_mask)
        )
        decoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return decoded

    def step(self, hidden: Tensor, cache: LayerCache, state: DecoderState) -> Tensor:
        """Decode one target position of every row: (N, 1, D) → (N, 1, D).

        The rows of a sentence share its keys and values: they attend as K queries of one sentence.
        """
        grid = state.grid

        def self_attention(position: Tensor) -> Tensor:
            attention = self.self_attention
            query, key, value = attention.project_self(position, state.position)
            cache.write(state.slots.written, key[:, :, 0], value[:, :, 0])
            queries = attention.split_heads(grid.spread(query.flatten(1)))  # (B, H, K, d_k)
            mask = state.slots.mask  # (B, 1, K, M')
            keys, values = cache.read(mask.size(-1))
            heads = attention.attend(queries, keys, values, mask)  # (B, K, H · d_v)
            attended: Tensor = attention.output(grid.collect(heads)[:, None])
            return attended

        def cross_attention(position: Tensor) -> Tensor:
            attention = self.cross_attention
            queries = attention.split_heads(grid.spread(attention.query(position[:, 0])))
            heads = attention.attend(
                queries, cache.memory_keys, cache.memory_values, state.source_mask
            )
            attended: Tensor = attention.output(grid.collect(heads)[:, None])
            return attended

        hidden = self.self_attention_residual(hidden, self_attention)
        hidden = self.cross_attention_residual(hidden, cross_attention)
        decoded: Tensor = self.feed_forward_residual(hidden, self.feed_forward)
        return decoded
