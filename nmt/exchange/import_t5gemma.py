"""Settings and weights of the class T5Gemma of Hugging Face, as a model of this program.

Only folders with the files of MarianTokenizer can be imported, such as our own exports.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from nmt.base.errors import UserError
from nmt.config import (
    ModelConfig,
    NormPlacement,
    Positions,
    Sublayers,
    TiedEmbeddings,
    from_mapping,
)
from nmt.exchange.importer import ForeignWeights
from nmt.exchange.t5gemma import SIDES, convert, side_config, t5gemma_names
from nmt.model.build import meta_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.trained_model import build_from_weights

_DEFAULTS = {"rope_theta": 10000.0}  # not written by transformers 5


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

    def model_config(self, path: Path, bos_id: int) -> ModelConfig:
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
            "positions": Positions.rotary,
            "norm": NormPlacement.pre,
            "sublayers": Sublayers.gemma,
            "activation": side["hidden_activation"],
            "tied_embeddings": TiedEmbeddings.target,
            "max_length": self.max_position_embeddings,
            "dropout": self.dropout_rate,
            "attention_dropout": self.attention_dropout,
        }
        config: ModelConfig = from_mapping(ModelConfig, values, str(path), "model.")
        for name, found in zip(SIDES, (self.encoder, self.decoder), strict=True):
            present = {**_DEFAULTS, **found}
            for key, value in side_config(config, name).items():
                if key not in present or present[key] != value:
                    shown = present.get(key, "missing")
                    raise UserError(f"{path}: {name}.{key} is {shown}, and must be {value}")
        if self.decoder_start_token_id != bos_id:
            raise UserError(
                f"{path}: decoder_start_token_id={self.decoder_start_token_id}, but <s> is {bos_id}"
            )
        if not self.tie_word_embeddings:
            raise UserError(f"{path}: tie_word_embeddings is false, and must be true")
        return config


def load_t5gemma(
    weights: ForeignWeights, config: ModelConfig, tokenizers: Sequence[Tokenizer]
) -> EncoderDecoder:
    """Build the model from its weights."""
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    network = meta_model(config, *sizes)
    shapes = {name: parameter.shape for name, parameter in network.named_parameters()}
    ours = {
        name: convert(name, weights.take(theirs, *shapes[name]), config, is_import=True)
        for name, theirs in t5gemma_names(network)
    }
    weights.check_all_taken()
    is_joint = tokenizers[0] is tokenizers[1]
    if is_joint and torch.equal(ours["source_embedding.weight"], ours["output_weight"]):
        del ours["source_embedding.weight"]
        config = replace(config, tied_embeddings=TiedEmbeddings.three_way)
    return build_from_weights(config, sizes, ours, weights.path)
