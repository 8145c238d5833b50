"""Names and order of weights in the classes Marian and Pegasus of Hugging Face's transformers.

The sines of a position are at the even indices of our vectors, and in the first half of theirs.
Positions are added to embeddings, so every axis of the model width is ordered like them.
"""

import torch
from torch import Tensor

from nmt.model.encoder_decoder import EncoderDecoder

_RENAMED = (
    ("encoder_norm.", "encoder.layer_norm."),
    ("decoder_norm.", "decoder.layer_norm."),
    ("coder.", "coder.layers."),
    ("coder.layers.layer_norm.", "coder.layer_norm."),
    (".self_attention_residual.norm.", ".self_attn_layer_norm."),
    (".cross_attention_residual.norm.", ".encoder_attn_layer_norm."),
    (".feed_forward_residual.norm.", ".final_layer_norm."),
    (".feed_forward.inner.", ".fc1."),
    (".feed_forward.outer.", ".fc2."),
    (".self_attention.", ".self_attn."),
    (".cross_attention.", ".encoder_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".output.", ".out_proj."),
)
_WIDTH_LAST = ("query.weight", "key.weight", "value.weight", "inner.weight")
_WITHOUT_WIDTH = ("query.bias", "key.bias", "value.bias", "inner.bias")


def layer_names(transformer: EncoderDecoder) -> list[tuple[str, str]]:
    """Return our name and theirs of each weight of the encoder and the decoder."""
    pairs = []
    for name, _ in transformer.named_parameters():
        if name.startswith(("encoder", "decoder")):
            theirs = name
            for old, new in _RENAMED:
                theirs = theirs.replace(old, new)
            pairs.append((name, f"model.{theirs}"))
    return pairs


def half_split(width: int) -> Tensor:
    """Return the indices of our vectors in the order of theirs: even ones, then odd ones."""
    return torch.arange(width).view(-1, 2).T.flatten()


def reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Reorder the axis of the model width, if a weight has one.

    Args:
        name: our name of the weight of a layer.
        weight: the weight.
        order: `half_split(width)` to convert to their order, its `argsort()` to convert to ours.
    """
    if name.endswith(_WITHOUT_WIDTH):
        return weight
    return weight[:, order] if name.endswith(_WIDTH_LAST) else weight[order]
