"""Copy of a model for decoding: with packed weights on a CPU, or in another precision."""

import copy

import torch
from torch import nn

from nmt.config import DecodingPrecision
from nmt.model.attention import MultiHeadAttention
from nmt.model.cpu import PackedLinear, use_cpu_operators
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.layers import FeedForward


class DecodingWeights:
    """Provides a copy of a model for decoding, and makes a new one when the weights change.

    The model itself is not changed. An update by a fused optimizer is not noticed if the model was
    in evaluation mode at the calls of `now` before and after the update.
    """

    def __init__(self, model: EncoderDecoder, precision: DecodingPrecision) -> None:
        self._model = model
        self._precision = precision
        self._copy: EncoderDecoder | None = None
        self._copied_weights: list[tuple[int, int, int]] = []

    def now(self) -> EncoderDecoder:
        """Return a model in evaluation mode with the current weights."""
        # Fused optimizers do not change `_version`, so no copy is kept while the model is trained.
        if self._model.training:
            self._copy = None
            return self._make()
        weights = [(id(w), w.data_ptr(), w._version) for w in self._model.parameters()]
        if self._copy is None or weights != self._copied_weights:
            self._copy, self._copied_weights = self._make(), weights
        return self._copy

    def _make(self) -> EncoderDecoder:
        if self._precision is not DecodingPrecision.float32:
            return copy.deepcopy(self._model).eval().to(getattr(torch, self._precision.name))
        # The copy shares all tensors with the model; only packed weights take more memory.
        tensors = (*self._model.parameters(), *self._model.buffers())
        shared = {id(tensor): tensor for tensor in tensors}
        model = copy.deepcopy(self._model, shared).eval()
        has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        if has_onednn and use_cpu_operators(model.output_weight):
            _pack(model)
        return model


def _pack(module: nn.Module) -> None:
    """Replace all linear layers by packed ones."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(child.weight, child.bias))
        else:
            if isinstance(child, FeedForward):
                _pack_feed_forward(child)
            elif name == "self_attention" and isinstance(child, MultiHeadAttention):
                _pack_self_attention(child)
            _pack(child)


def _pack_self_attention(attention: MultiHeadAttention) -> None:
    """Replace the projections to queries, keys and values by one packed layer."""
    layers = attention.query, attention.key, attention.value
    weight = torch.cat([layer.weight for layer in layers])
    attention.packed = PackedLinear(weight, torch.cat([layer.bias for layer in layers]))
    del attention.query, attention.key, attention.value


def _pack_feed_forward(layer: FeedForward) -> None:
    """Pack the first linear layer together with the activation."""
    inner = PackedLinear(layer.inner.weight, layer.inner.bias, layer.activation_name)
    layer.register_module("inner", inner)
    layer.activation = nn.Identity()
