"""The class T5Gemma of Hugging Face's transformers: its settings and weights, and ours.

It is the Transformer with `model.sublayers=gemma` and rotary positions (Zhang et al. 2025). Only
folders with the files of MarianTokenizer can be imported, such as our own exports.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, with_config
from torch import Tensor
from typing_extensions import TypedDict

from nmt.base.errors import UserError
from nmt.config import ModelConfig, TiedEmbeddings, from_mapping
from nmt.exchange.exporter import check_equal_widths, check_values
from nmt.exchange.foreign_weights import ForeignWeights, half_split, renamed
from nmt.model.build import meta_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, build_from_weights

_SIDES = ("encoder", "decoder")
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"

_RENAMED = (
    ("coder_norm.", "coder.norm."),
    ("coder.", "coder.layers."),
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
_DEFAULTS = {"rope_theta": 10000.0}  # not written by transformers 5
_ROTATED = ("self_attention.query.weight", "self_attention.key.weight")


def check_t5gemma(config: ModelConfig, advice: str) -> None:
    """Raise UserError with some advice if T5Gemma does not support a model of this form."""
    name = "T5Gemma of Hugging Face"
    supported: dict[str, Collection[object]] = {
        "positions": ["rotary"],
        "tied_embeddings": ["three_way", "target"],
        "start": ["learned"],
        "output_bias": [False],
    }
    check_values(config, supported, name, advice)
    check_equal_widths(config, name, f"{advice}, or train with equal widths")


def _their_name(name: str) -> str:
    """Return the name in T5Gemma of one of our weights."""
    embeddings = {"source_embedding.weight": _SOURCE, "output_weight": _TARGET}
    return embeddings.get(name, f"model.{renamed(name, _RENAMED)}")


def _convert(name: str, weight: Tensor, config: ModelConfig, is_import: bool = False) -> Tensor:
    """Convert one of our weights, of our name `name`, to theirs; with `is_import` theirs to ours.

    T5Gemma stores weights of RMSNorm minus 1, and rotates elements i and i + d_k / 2 together. We
    rotate elements 2i and 2i + 1 together.
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
    weights = {
        _their_name(name): _convert(name, weight, network.config)
        for name, weight in network.named_parameters()
    }
    return {_SOURCE: weights[_TARGET], **weights}  # a tied source embedding is stored, too


def t5gemma_config(model: TrainedModel, num_positions: int, ids: dict[str, int]) -> dict[str, Any]:
    """Return the contents of `config.json`.

    Args:
        model: a model that `check_t5gemma` accepts.
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
            **_side_config(config, side),
            **ids,
        }
        for side, tokenizer in zip(_SIDES, model.tokenizers, strict=True)
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


def _side_config(config: ModelConfig, side: str) -> dict[str, Any]:
    """Return the settings of the encoder or the decoder that determine what it computes."""
    is_encoder = side == _SIDES[0]
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


@with_config(ConfigDict(extra="allow"))
class _Side(TypedDict):
    """The encoder or the decoder in `config.json`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    hidden_activation: str


@dataclass(frozen=True)
class T5GemmaSettings:
    """Keys that are read from `config.json`."""

    encoder: _Side
    decoder: _Side
    max_position_embeddings: int
    eos_token_id: int
    decoder_start_token_id: int
    dropout_rate: float = 0.0
    attention_dropout: float = 0.0
    tie_word_embeddings: bool = True

    @property
    def vocab_size(self) -> int:
        """Number of rows of the larger embedding."""
        return max(self.encoder["vocab_size"], self.decoder["vocab_size"])

    def model_config(self, path: Path) -> ModelConfig:
        """Convert the settings, except whether both sides share an embedding: the weights show it.

        Raises:
            UserError: this program does not support the model.
        """
        side = self.encoder
        values = {
            "width": side["hidden_size"],
            "num_encoder_layers": side["num_hidden_layers"],
            "num_decoder_layers": self.decoder["num_hidden_layers"],
            "num_heads": side["num_attention_heads"],
            "key_width": side["head_dim"],
            "value_width": side["head_dim"],
            "feed_forward_width": side["intermediate_size"],
            "positions": "rotary",
            "norm": "pre",
            "sublayers": "gemma",
            "activation": side["hidden_activation"],
            "tied_embeddings": "target",
            "max_length": self.max_position_embeddings,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout,
        }
        config: ModelConfig = from_mapping(ModelConfig, values, str(path), "model.")
        for name, found in zip(_SIDES, (self.encoder, self.decoder), strict=True):
            present = {**_DEFAULTS, **found}
            for key, value in _side_config(config, name).items():
                if key not in present or present[key] != value:
                    shown = present.get(key, "missing")
                    raise UserError(f"{path}: {name}.{key} is {shown}, and must be {value}")
        if not self.tie_word_embeddings:
            raise UserError(f"{path}: tie_word_embeddings is false, and must be true")
        return config


def load_t5gemma(
    weights: ForeignWeights, config: ModelConfig, tokenizers: Sequence[Tokenizer]
) -> EncoderDecoder:
    """Build the model from its weights."""
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    ours = {
        name: _convert(name, weights.take(_their_name(name), *weight.shape), config, is_import=True)
        for name, weight in meta_model(config, *sizes).named_parameters()
    }
    weights.check_all_taken()
    is_joint = tokenizers[0] is tokenizers[1]
    if is_joint and torch.equal(ours["source_embedding.weight"], ours["output_weight"]):
        del ours["source_embedding.weight"]
        config = replace(config, tied_embeddings=TiedEmbeddings.three_way)
    return build_from_weights(config, sizes, ours, weights.path)
