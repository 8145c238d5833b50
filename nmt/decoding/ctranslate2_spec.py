"""A trained model as CTranslate2 specifies a Transformer: the same weights under its names.

    embeddings · sqrt(D), then the table of positions from row 0
    fused projections: queries | keys | values of self-attention, keys | values of cross-attention
    source … EOS; the decoder starts from BOS

The tokens of its vocabularies are the pieces of our tokenizers, in the order of their ids.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ctranslate2.specs.common_spec import Activation as TheirActivation
from ctranslate2.specs.transformer_spec import (
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
)
from torch import Tensor, nn

from nmt.config import Activation, ModelConfig, NormPlacement, Positions
from nmt.errors import UserError
from nmt.model.attention import MultiHeadAttention
from nmt.model.layers import DecoderLayer, EncoderLayer, FeedForward
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel

_ACTIVATIONS = {
    Activation.relu: TheirActivation.RELU,
    Activation.gelu: TheirActivation.GELU,
    Activation.swiglu: TheirActivation.SWISH,
}


def check_convertible(config: ModelConfig) -> None:
    """Raise UserError for a model that CTranslate2 has no words for."""
    if config.head_key_width != config.head_value_width:
        raise UserError(
            f"CTranslate2 knows one width of a head; this model has model.key_width="
            f"{config.head_key_width} and model.value_width={config.head_value_width}: take"
            " engine=torch"
        )
    if config.qk_norm:
        raise UserError(
            "CTranslate2 normalises no queries and keys of the attention to another sequence"
            " (model.qk_norm): take engine=torch"
        )
    if config.activation not in _ACTIVATIONS:
        raise UserError(
            f"CTranslate2 has no model.activation={config.activation.value}: take engine=torch"
        )


def specification(model: TrainedModel) -> TransformerSpec:
    """The model's weights and vocabularies in CTranslate2's form, in float32.

    Raises:
        UserError: it cannot hold such a model.
    """
    config, transformer = model.config.model, model.transformer
    check_convertible(config)
    shape = {
        "num_heads": config.num_heads,
        "pre_norm": config.norm is NormPlacement.pre,
        "activation": _ACTIVATIONS[config.activation],
        "ffn_glu": config.activation is Activation.swiglu,
        "rotary_dim": config.head_key_width if config.positions is Positions.rotary else None,
    }
    encoder = TransformerEncoderSpec(config.num_encoder_layers, **shape)
    decoder = TransformerDecoderSpec(config.num_decoder_layers, **shape)
    encoder.embeddings[0].weight = _array(transformer.source_embedding.weight)
    decoder.embeddings.weight = _array(transformer.target_embedding.weight)
    decoder.projection.weight = _array(transformer.output_weight)
    if config.positions is Positions.rotary:
        del encoder.position_encodings  # it is there, whatever the encoder's positions are
    else:
        encoder.position_encodings.encodings = _position_table(transformer.source_positions)
        decoder.position_encodings.encodings = _position_table(transformer.target_positions)
    for theirs, layer in zip(encoder.layer, transformer.encoder, strict=True):
        _fill_encoder_layer(theirs, layer)
    for theirs, layer in zip(decoder.layer, transformer.decoder, strict=True):
        _fill_decoder_layer(theirs, layer)
    if config.norm is NormPlacement.pre:
        _fill_norm(encoder.layer_norm, transformer.encoder_norm)
        _fill_norm(decoder.layer_norm, transformer.decoder_norm)
    spec = TransformerSpec(encoder, decoder)
    spec.register_source_vocabulary(all_pieces(model.source_tokenizer))
    spec.register_target_vocabulary(all_pieces(model.target_tokenizer))
    _frame(spec.config, model)
    return spec


def all_pieces(tokenizer: Tokenizer) -> list[str]:
    """Every piece, in the order of the ids; sentencepiece sees to it that no two are equal."""
    return tokenizer.pieces(range(tokenizer.vocabulary_size))


def _frame(config: Any, model: TrainedModel) -> None:
    """Say what frames a sentence: source EOS, and BOS before the translation."""
    target = model.target_tokenizer
    unknown, bos, eos = target.pieces((target.unknown_id, target.bos_id, target.eos_id))
    source = model.source_tokenizer
    if source.pieces((source.unknown_id, source.eos_id)) != [unknown, eos]:
        raise UserError(
            "CTranslate2 knows one unknown token and one EOS for both languages; those of"
            f" {source.path.name} and {target.path.name} differ: take engine=torch"
        )
    config.unk_token, config.bos_token, config.eos_token = unknown, bos, eos
    config.decoder_start_token = bos
    config.add_source_eos = True
    first = next(m for m in model.transformer.modules() if isinstance(m, nn.LayerNorm))
    config.layer_norm_epsilon = first.eps


def _fill_encoder_layer(theirs: Any, layer: nn.Module) -> None:
    assert isinstance(layer, EncoderLayer)
    _fill_attention(theirs.self_attention, layer.self_attention)
    _fill_norm(theirs.self_attention.layer_norm, layer.self_attention_residual.norm)
    _fill_feed_forward(theirs.ffn, layer.feed_forward)
    _fill_norm(theirs.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_decoder_layer(theirs: Any, layer: nn.Module) -> None:
    assert isinstance(layer, DecoderLayer)
    _fill_attention(theirs.self_attention, layer.self_attention)
    _fill_norm(theirs.self_attention.layer_norm, layer.self_attention_residual.norm)
    _fill_attention(theirs.attention, layer.cross_attention)
    _fill_norm(theirs.attention.layer_norm, layer.cross_attention_residual.norm)
    _fill_feed_forward(theirs.ffn, layer.feed_forward)
    _fill_norm(theirs.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_attention(theirs: Any, attention: MultiHeadAttention) -> None:
    query, key, value, output = attention.query, attention.key, attention.value, attention.output
    is_self_attention = len(theirs.linear) == 2
    groups = [[query, key, value], [output]]
    if not is_self_attention:
        groups = [[query], [key, value], [output]]
    for linear, group in zip(theirs.linear, groups, strict=True):
        _fill_linear(linear, group)
    # By default it follows the width of the model, and heads may have one of their own.
    theirs.queries_scale = 1 / math.sqrt(query.out_features // attention.num_heads)


def _fill_feed_forward(theirs: Any, feed_forward: FeedForward) -> None:
    if feed_forward.activation is Activation.swiglu:
        # Theirs are named by what becomes of them: the first goes through the non-linearity.
        _fill_linear(theirs.linear_0, [feed_forward.gate])
        _fill_linear(theirs.linear_0_noact, [feed_forward.inner])
    else:
        _fill_linear(theirs.linear_0, [feed_forward.inner])
    _fill_linear(theirs.linear_1, [feed_forward.outer])


def _fill_linear(theirs: Any, layers: Sequence[nn.Linear]) -> None:
    """Several layers of one input stand above each other in one matrix."""
    theirs.weight = _array(torch.cat([layer.weight for layer in layers]))
    theirs.bias = _array(torch.cat([layer.bias for layer in layers]))


def _fill_norm(theirs: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    theirs.gamma, theirs.beta = _array(norm.weight), _array(norm.bias)


def _position_table(positions: nn.Module) -> np.ndarray:
    assert isinstance(positions.table, Tensor)
    return _array(positions.table)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float32).numpy()
