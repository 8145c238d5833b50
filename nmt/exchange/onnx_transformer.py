"""The encoder and the decoder as ONNX graphs.

Their inputs and outputs have the names that optimum and transformers.js expect:

- encoder: input_ids, attention_mask → last_hidden_state
- decoder: encoder_attention_mask, input_ids, encoder_hidden_states, the cache
  past_key_values.{layer}.{decoder,encoder}.{key,value} and use_cache_branch → logits and the next
  cache, present.{layer}.{decoder,encoder}.{key,value}. With use_cache_branch=false, the keys and
  values of the encoder output are computed; with true, they are taken from the cache.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx
import torch
from onnx import TensorProto
from torch import Tensor, nn

from nmt.config import Activation, NormPlacement, Positions, StartEmbedding
from nmt.exchange.huggingface import num_positions
from nmt.exchange.onnx_graph import Graph, value_of
from nmt.model.attention import MultiHeadAttention
from nmt.model.layers import DecoderLayer, FeedForward, Residual
from nmt.model.positions import AddedPositions, sinusoidal_table
from nmt.model.transformer import Transformer

_MASKED = float(np.finfo(np.float32).min)
_PAST, _PRESENT = "past_key_values", "present"


def encoder_graph(transformer: Transformer) -> onnx.ModelProto:
    """Return the encoder as a graph with float32 weights."""
    network = _Network(transformer)
    network.begin(network.integers(0))
    hidden = network.embed(transformer.source_embedding, transformer.source_positions)
    mask = network.source_mask("attention_mask")

    def attend(attention: MultiHeadAttention, inputs: str) -> str:
        return network.attend(attention, inputs, network.keys_values(attention, inputs), mask)

    for layer in transformer.encoder:
        attention = partial(attend, layer.self_attention)
        hidden = network.residual(hidden, layer.self_attention_residual, attention)
        hidden = network.feed_forward(hidden, layer.feed_forward, layer.feed_forward_residual)
    output = "last_hidden_state"
    network.add("Identity", network.norm(hidden, transformer.encoder_norm), output=output)
    names, shape = ("input_ids", "attention_mask"), ("batch", "source")
    inputs = [value_of(name, *shape, kind=TensorProto.INT64) for name in names]
    return network.model(inputs, [value_of(output, *shape, transformer.config.width)])


def decoder_graph(transformer: Transformer) -> onnx.ModelProto:
    """Return the decoder and the output projection as a graph with float32 weights."""
    network, config = _Network(transformer), transformer.config
    past_shape = network.add("Shape", _cache(_PAST, 0, "decoder")[0])
    network.begin(network.add("Gather", past_shape, network.integers(2), axis=0))
    is_zero = config.start is StartEmbedding.zero
    hidden = network.embed(transformer.target_embedding, transformer.target_positions, is_zero)
    masks = network.causal_mask(), network.source_mask("encoder_attention_mask")
    inputs = [
        value_of("encoder_attention_mask", "batch", "source", kind=TensorProto.INT64),
        value_of("input_ids", "batch", "target", kind=TensorProto.INT64),
        value_of("encoder_hidden_states", "batch", "source", config.width),
    ]
    outputs = [value_of("logits", "batch", "target", len(transformer.output_weight))]
    lengths = ("decoder", "past", "total"), ("encoder", "past_source", "source")
    widths = config.head_key_width, config.head_value_width
    for index, layer in enumerate(transformer.decoder):
        hidden = _decoder_layer(network, layer, index, hidden, masks)
        for side, past, present in lengths:
            for values, prefix, length in ((inputs, _PAST, past), (outputs, _PRESENT, present)):
                for name, width in zip(_cache(prefix, index, side), widths, strict=True):
                    values.append(value_of(name, "batch", config.num_heads, length, width))
    hidden = network.norm(hidden, transformer.decoder_norm)
    logits = network.add("MatMul", hidden, network.weight(transformer.output_weight, torch.t))
    if transformer.output_bias is not None:
        logits = network.add("Add", logits, network.weight(transformer.output_bias))
    network.add("Identity", logits, output="logits")
    return network.model([*inputs, value_of("use_cache_branch", 1, kind=TensorProto.BOOL)], outputs)


def _decoder_layer(
    network: "_Network", layer: DecoderLayer, index: int, hidden: str, masks: tuple[str, str]
) -> str:
    def self_attention(inputs: str) -> str:
        attention = layer.self_attention
        past, present = (_cache(prefix, index, "decoder") for prefix in (_PAST, _PRESENT))
        new = network.keys_values(attention, inputs)
        for before, added, after in zip(past, new, present, strict=True):
            network.add("Concat", before, added, axis=2, output=after)
        return network.attend(attention, inputs, present, masks[0])

    def cross_attention(inputs: str) -> str:
        attention = layer.cross_attention
        past, present = (_cache(prefix, index, "encoder") for prefix in (_PAST, _PRESENT))
        network.choose(
            "use_cache_branch",
            lambda: past,
            lambda: network.keys_values(attention, "encoder_hidden_states"),
            present,
        )
        return network.attend(attention, inputs, present, masks[1])

    hidden = network.residual(hidden, layer.self_attention_residual, self_attention)
    hidden = network.residual(hidden, layer.cross_attention_residual, cross_attention)
    return network.feed_forward(hidden, layer.feed_forward, layer.feed_forward_residual)


class _Network(Graph):
    """A graph with the parts of a Transformer."""

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self._config = transformer.config
        self._names = {id(weight): name for name, weight in transformer.named_parameters()}

    def weight(self, parameter: Tensor, change: Callable[[Tensor], Tensor] = torch.clone) -> str:
        """Add `change(parameter)` as a constant; its name is the one in `weights.safetensors`."""
        return self.constant(self._names[id(parameter)], change(parameter.detach().cpu()))

    def begin(self, first: str) -> None:
        """Add the nodes that depend on `first` (1,), the number of earlier tokens."""
        length = self.add("Gather", self.add("Shape", "input_ids"), self.integers(1), axis=0)
        self._first, self._end = first, self.add("Add", first, length)
        if self._config.positions is Positions.rotary:
            width = self._config.head_key_width
            table = sinusoidal_table(num_positions(self._config), width)
            self._sin, self._cos = (
                self._rows(f"rotary.{offset}", table[:, offset::2]) for offset in (0, 1)
            )

    def embed(
        self, embedding: nn.Embedding, positions: AddedPositions | None, from_zero: bool = False
    ) -> str:
        """Embed input_ids (B, L) as (B, L, D), position 0 as zeros if `from_zero` is set."""
        config = self._config
        # Stored as (D, V), because a tied matrix is the second factor of the output projection.
        columns = self.add("Gather", self.weight(embedding.weight, torch.t), "input_ids", axis=1)
        hidden = self.add("Transpose", columns, perm=[1, 2, 0])
        hidden = self.add("Mul", hidden, self.scalar(math.sqrt(config.width)))
        if from_zero:
            is_later = self.add("Greater", self._positions(), self.scalar(0))
            hidden = self.add("Mul", hidden, self.add("Cast", is_later, to=TensorProto.FLOAT))
        if positions is None:
            return hidden
        table, name = positions.table, self._names.get(id(positions.table), "positions")
        if config.positions is Positions.sinusoidal:
            table = sinusoidal_table(num_positions(config), config.width, config.timescales)
        return self.add("Add", hidden, self._rows(name, table))

    def linear(
        self, inputs: str, layer: nn.Linear, change: Callable[[Tensor], Tensor] = torch.clone
    ) -> str:
        """Add a linear layer, (…, D) → (…, D'); `change` is applied to its weight and bias."""
        weight = self.weight(layer.weight, lambda values: change(values).T)
        return self.add("Add", self.add("MatMul", inputs, weight), self.weight(layer.bias, change))

    def norm(self, inputs: str, layer: nn.Module) -> str:
        """Normalise, unless the layer is the identity."""
        if not isinstance(layer, nn.LayerNorm):
            return inputs
        weights = self.weight(layer.weight), self.weight(layer.bias)
        return self.add("LayerNormalization", inputs, *weights, axis=-1, epsilon=layer.eps)

    def residual(self, hidden: str, layer: Residual, sublayer: Callable[[str], str]) -> str:
        if self._config.norm is NormPlacement.pre:
            return self.add("Add", hidden, sublayer(self.norm(hidden, layer.norm)))
        return self.norm(self.add("Add", hidden, sublayer(hidden)), layer.norm)

    def feed_forward(self, hidden: str, layer: nn.Module, residual: Residual) -> str:
        assert isinstance(layer, FeedForward)

        def sublayer(inputs: str) -> str:
            return self.linear(self._activation(self.linear(inputs, layer.inner)), layer.outer)

        return self.residual(hidden, residual, sublayer)

    def _activation(self, inner: str) -> str:
        if self._config.activation is Activation.relu:
            return self.add("Relu", inner)
        if self._config.activation is Activation.silu:
            share = self.add("Sigmoid", inner)
        else:  # opset 17 has no Gelu
            error = self.add("Erf", self.add("Mul", inner, self.scalar(math.sqrt(0.5))))
            share = self.add("Add", self.add("Mul", error, self.scalar(0.5)), self.scalar(0.5))
        return self.add("Mul", inner, share)

    def keys_values(self, attention: MultiHeadAttention, inputs: str) -> tuple[str, str]:
        """Compute keys (B, H, S, d_k) and values (B, H, S, d_v) of inputs (B, S, D)."""
        keys = self._heads(inputs, attention.key, attention.rotary is not None)
        return keys, self._heads(inputs, attention.value)

    def attend(
        self, attention: MultiHeadAttention, inputs: str, keys_values: tuple[str, str], mask: str
    ) -> str:
        """Attend from inputs (B, T, D) to keys and values: (B, T, D)."""
        keys, values = keys_values
        scale = 1 / math.sqrt(self._config.head_key_width)
        query = self._heads(inputs, attention.query, attention.rotary is not None, scale)
        similarity = self.add("MatMul", query, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        weights = self.add("Softmax", self.add("Add", similarity, mask), axis=-1)
        heads = self.add("Transpose", self.add("MatMul", weights, values), perm=[0, 2, 1, 3])
        shape = self.integers(0, 0, attention.output.in_features)
        return self.linear(self.add("Reshape", heads, shape), attention.output)

    def source_mask(self, name: str) -> str:
        """Convert an input (B, S) to the mask (B, 1, 1, S) that is added to similarities."""
        attended = self.add("Cast", name, to=TensorProto.BOOL)
        return self._additive_mask(self.add("Unsqueeze", attended, self.integers(1, 2)))

    def causal_mask(self) -> str:
        """Return the mask (T, T' + T) that is added to similarities; T' tokens are in the cache."""
        keys = self.add("Range", self.scalar(0), self._number(self._end), self.scalar(1))
        return self._additive_mask(self.add("LessOrEqual", keys, self._positions()))

    def _rows(self, name: str, table: Tensor) -> str:
        """Return the rows of a table at the positions of the tokens."""
        values = self.constant(name, table.detach().cpu())
        return self.add("Slice", values, self._first, self._end, self.integers(0))

    def _positions(self) -> str:
        """Return the positions (L, 1) of the tokens."""
        first, end = self._number(self._first), self._number(self._end)
        numbers = self.add("Range", first, end, self.scalar(1))
        return self.add("Unsqueeze", numbers, self.integers(1))

    def _number(self, vector: str) -> str:
        return self.add("Squeeze", vector, self.integers(0))

    def _additive_mask(self, attended: str) -> str:
        return self.add("Where", attended, self.scalar(0.0), self.scalar(_MASKED))

    def _heads(
        self, inputs: str, layer: nn.Linear, is_rotated: bool = False, scale: float = 1.0
    ) -> str:
        """Project to heads: (B, L, D) → (B, H, L, E).

        In rotated vectors, elements with even index come first, then those with odd index.
        """
        num_heads = self._config.num_heads
        width = layer.out_features // num_heads

        def change(values: Tensor) -> Tensor:
            shape = values.shape
            values = values.reshape(num_heads, width, -1) * scale
            if is_rotated:
                values = torch.cat((values[:, 0::2], values[:, 1::2]), dim=1)
            return values.reshape(shape)

        split = self.add(
            "Reshape", self.linear(inputs, layer, change), self.integers(0, 0, num_heads, width)
        )
        heads = self.add("Transpose", split, perm=[0, 2, 1, 3])
        if not is_rotated:
            return heads
        even, odd = (
            self.add("Slice", heads, self.integers(first), self.integers(last), self.integers(-1))
            for first, last in ((0, width // 2), (width // 2, width))
        )
        even_cos, even_sin, odd_cos, odd_sin = (
            self.add("Mul", part, factor)
            for part in (even, odd)
            for factor in (self._cos, self._sin)
        )
        rotated = self.add("Sub", even_cos, odd_sin), self.add("Add", even_sin, odd_cos)
        return self.add("Concat", *rotated, axis=-1)


def _cache(prefix: str, layer: int, side: str) -> tuple[str, str]:
    """Return the names of a layer's cached keys and values; `side` is "decoder" or "encoder"."""
    return f"{prefix}.{layer}.{side}.key", f"{prefix}.{layer}.{side}.value"
