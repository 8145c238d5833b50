"""Weights and settings of the class T5Gemma of Hugging Face's transformers.

It is the Transformer with `model.sublayers=gemma` and rotary positions (Zhang et al. 2025).
"""

from typing import Any

from torch import Tensor

from nmt.config import ModelConfig, Positions, StartEmbedding, TiedEmbeddings
from nmt.exchange.exporter import check_values
from nmt.exchange.huggingface_weights import half_split
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.trained_model import TrainedModel

SIDES = ("encoder", "decoder")
SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"

_RENAMED = (
    ("encoder_norm.", "encoder.norm."),
    ("decoder_norm.", "decoder.norm."),
    ("encoder.", "encoder.layers."),
    ("decoder.", "decoder.layers."),
    ("coder.layers.norm.", "coder.norm."),
    (".self_attention_residual.norm.", ".pre_self_attn_layernorm."),
    (".self_attention_residual.output_norm.", ".post_self_attn_layernorm."),
    (".cross_attention_residual.norm.", ".pre_cross_attn_layernorm."),
    (".cross_attention_residual.output_norm.", ".post_cross_attn_layernorm."),
    (".feed_forward_residual.norm.", ".pre_feedforward_layernorm."),
    (".feed_forward_residual.output_norm.", ".post_feedforward_layernorm."),
    (".feed_forward.inner.", ".mlp.gate_proj."),
    (".feed_forward.gate.", ".mlp.up_proj."),
    (".feed_forward.outer.", ".mlp.down_proj."),
    (".self_attention.", ".self_attn."),
    (".cross_attention.", ".cross_attn."),
    (".query.", ".q_proj."),
    (".key.", ".k_proj."),
    (".value.", ".v_proj."),
    (".output.", ".o_proj."),
)
_ROTATED = ("self_attention.query.weight", "self_attention.key.weight")


def check_t5gemma(config: ModelConfig, advice: str) -> None:
    """Raise UserError with some advice if T5Gemma does not support a model of this form."""
    tied = config.tied_embeddings
    needed_tied = "three_way or target" if tied is TiedEmbeddings.none else tied
    values = (
        ("positions", config.positions, Positions.rotary),
        ("tied_embeddings", tied, needed_tied),
        ("start", config.start, StartEmbedding.learned),
        ("output_bias", config.output_bias, False),
        ("value_width", config.head_value_width, config.head_key_width),
    )
    check_values(values, "T5Gemma of Hugging Face", advice)


def t5gemma_names(network: EncoderDecoder) -> list[tuple[str, str]]:
    """Return our name and theirs of each weight."""
    embeddings = {"source_embedding.weight": SOURCE, "output_weight": TARGET}
    names = []
    for name, _ in network.named_parameters():
        theirs = name
        for old, new in _RENAMED:
            theirs = theirs.replace(old, new)
        names.append((name, embeddings.get(name, f"model.{theirs}")))
    return names


def convert(name: str, weight: Tensor, config: ModelConfig, is_import: bool = False) -> Tensor:
    """Convert one of our weights to theirs, or theirs to ours.

    T5Gemma stores weights of RMSNorm minus 1, and rotates elements i and i + d_k / 2 together. We
    rotate elements 2i and 2i + 1 together.

    Args:
        name: our name.
        weight: the weight.
        config: our configuration.
        is_import: convert to ours.
    """
    if name.endswith("norm.weight"):
        return weight + 1 if is_import else weight - 1
    if not name.endswith(_ROTATED):
        return weight
    order = half_split(config.head_key_width)
    heads = weight.view(config.num_heads, config.head_key_width, -1)
    return heads[:, order.argsort() if is_import else order].flatten(0, 1)


def t5gemma_weights(network: EncoderDecoder) -> dict[str, Tensor]:
    """Return the weights under the names of T5Gemma."""
    parameters = dict(network.named_parameters())
    weights = {
        theirs: convert(ours, parameters[ours], network.config)
        for ours, theirs in t5gemma_names(network)
    }
    return {SOURCE: weights[TARGET], **weights}  # a tied source embedding is stored, too


def t5gemma_config(model: TrainedModel, num_positions: int, ids: dict[str, int]) -> dict[str, Any]:
    """Return the contents of `config.json`.

    Args:
        model: the model.
        num_positions: maximum length of a text, in tokens.
        ids: ids of special tokens.
    """
    config = model.config.model
    sides = {
        side: {
            "model_type": "t5_gemma_module",
            "vocab_size": tokenizer.vocabulary_size,
            "max_position_embeddings": num_positions,
            "sliding_window": num_positions,  # unused, but transformers 4 fails without it
            **side_config(config, side),
            **ids,
        }
        for side, tokenizer in zip(SIDES, model.tokenizers, strict=True)
    }
    return {
        "model_type": "t5gemma",
        "architectures": ["T5GemmaForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": model.target_tokenizer.vocabulary_size,
        "max_position_embeddings": num_positions,
        "tie_word_embeddings": True,
        "dropout_rate": config.dropout,
        "attention_dropout": config.attention_dropout,
        **ids,
        **sides,
    }


def side_config(config: ModelConfig, side: str) -> dict[str, Any]:
    """Return the settings of the encoder or the decoder that determine what it computes."""
    is_encoder = side == SIDES[0]
    num_layers = config.num_encoder_layers if is_encoder else config.num_decoder_layers
    return {
        "hidden_size": config.width,
        "intermediate_size": config.feed_forward_width,
        "num_hidden_layers": num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_heads,
        "head_dim": config.head_key_width,
        "query_pre_attn_scalar": config.head_key_width,
        "hidden_activation": config.activation.value,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "layer_types": ["full_attention"] * num_layers,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }
