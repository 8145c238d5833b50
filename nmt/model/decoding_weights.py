"""Copy of a model for decoding: with packed weights on a CPU, or in another precision."""

import copy

import torch
from torch import Tensor, nn

from nmt.config import DecodingPrecision
from nmt.model.attention import MultiHeadAttention, joined
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
            model = copy.deepcopy(self._model).eval().to(getattr(torch, self._precision.name))
            return _joined(model)
        # The copy shares all tensors with the model; only packed weights take more memory.
        tensors = (*self._model.parameters(), *self._model.buffers())
        shared = {id(tensor): tensor for tensor in tensors}
        model = copy.deepcopy(self._model, shared).eval()
        has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        if has_onednn and use_cpu_operators(model.output_weight):
            _pack(model)
            return model
        return _joined(model)


def _joined(model: EncoderDecoder) -> EncoderDecoder:
    """Compute queries, keys and values of self-attention in one product."""
    for path, module in model.named_modules():
        if path.endswith("self_attention") and isinstance(module, MultiHeadAttention):
            layer = nn.Linear(1, 1, device="meta")
            layer.weight, layer.bias = map(nn.Parameter, _taken_projections(module))
            module.packed = layer.requires_grad_(False)
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
                child.packed = PackedLinear(*_taken_projections(child))
            _pack(child)


def _taken_projections(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """Remove the projections to queries, keys and values; return their joined weight and bias."""
    weight, bias = joined(attention.query, attention.key, attention.value)
    del attention.query, attention.key, attention.value
    return weight, bias


def _pack_feed_forward(layer: FeedForward) -> None:
    """Pack the first linear layer together with the activation."""
    inner = PackedLinear(layer.inner.weight, layer.inner.bias, layer.activation_name)
    layer.register_module("inner", inner)
    layer.activation = nn.Identity()
