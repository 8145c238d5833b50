"""Settings in a folder of Hugging Face, as configuration of this program."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nmt.base.errors import UserError
from nmt.base.files import Record, read_record
from nmt.config import DecodingConfig, ModelConfig, from_mapping
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.huggingface import ACTIVATIONS, CONFIG_FILE, GENERATION_FILE, SETTINGS
from nmt.search.hypothesis import penalty_kind

_FIX = "use a folder as MarianMTModel and MarianTokenizer write it"
_MODEL_TYPES = ("marian", "pegasus")
_ACTIVATIONS = {name: ours for ours, name in ACTIVATIONS.items()} | {"silu": "silu"}


_Id = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class _Kind:
    """The key of `config.json` that decides which other keys there are."""

    model_type: str = ""


@dataclass(frozen=True)
class Settings:
    """Keys of `config.json`; the defaults are those of MarianConfig."""

    model_type: str
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    vocab_size: int
    decoder_start_token_id: _Id
    eos_token_id: int
    pad_token_id: _Id
    activation_function: str = "gelu"
    scale_embedding: bool = False
    max_position_embeddings: int = 1024
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    tie_word_embeddings: bool = True
    share_encoder_decoder_embeddings: bool = True

    def model_config(self, path: Path) -> ModelConfig:
        """Convert the settings; only the weights show `start`, `output_bias` and a tied target.

        Raises:
            UserError: this program does not support the model.
        """
        activation = _ACTIVATIONS.get(self.activation_function)
        if activation is None:
            raise UserError(
                f"{path}: activation_function={self.activation_function} is not one of"
                f" {', '.join(_ACTIVATIONS)}"
            )
        is_shared = self.share_encoder_decoder_embeddings
        for key, wanted in (
            ("scale_embedding", True),
            ("decoder_attention_heads", self.encoder_attention_heads),
            ("decoder_ffn_dim", self.encoder_ffn_dim),
            ("tie_word_embeddings", is_shared or self.tie_word_embeddings),
        ):
            if (value := getattr(self, key)) != wanted:
                raise UserError(f"{path}: {key}={value}, but this program needs {wanted}")
        values = {
            **{ours: getattr(self, theirs) for theirs, ours in SETTINGS.items()},
            "norm": "post" if self.model_type == "marian" else "pre",
            "activation": activation,
            "tied_embeddings": "three_way" if is_shared else "none",
            "max_length": self.max_position_embeddings,
        }
        return from_mapping(ModelConfig, values, str(path), "model.")


@dataclass(frozen=True)
class _Generation:
    """Keys that are read from `generation_config.json`."""

    num_beams: int | None = None
    length_penalty: float | None = None
    max_length: int | None = None
    min_new_tokens: int | None = None


@dataclass(frozen=True)
class _AddedToken:
    content: str


@dataclass(frozen=True)
class TokenizerSettings:
    """Keys that are read from `tokenizer_config.json`."""

    added_tokens_decoder: dict[str, _AddedToken] = field(default_factory=dict)
    source_lang: str | None = None
    target_lang: str | None = None
    model_max_length: Annotated[float, Field(ge=2)] = 512
    separate_vocabs: bool = False
    tokenizer_class: Literal["MarianTokenizer"] = "MarianTokenizer"


def check_model_type(folder: ForeignFolder) -> None:
    """Raise UserError unless the network of a folder is one that this program has."""
    name = read_settings(folder, CONFIG_FILE, _Kind).model_type
    if name not in _MODEL_TYPES:
        raise UserError(
            f"{folder.path / CONFIG_FILE}: model_type={name} is a network that this program does"
            " not have; import one of the type marian, such as Helsinki-NLP/opus-mt-en-de of the"
            " hub, or of the type pegasus with the tokenizers of marian"
        )


def read_settings(folder: ForeignFolder, name: str, kind: type[Record]) -> Record:
    """Read a JSON file of a folder; unknown keys are ignored."""
    return read_record(folder.file(name), kind, _FIX)


def decoding_config(folder: ForeignFolder) -> DecodingConfig:
    """Read the search settings of a folder; older folders have them in `config.json`."""
    name = GENERATION_FILE if (folder.path / GENERATION_FILE).exists() else CONFIG_FILE
    found = read_settings(folder, name, _Generation)
    alpha = 1.0 if found.length_penalty is None else found.length_penalty
    values = {
        "beam_size": found.num_beams or 1,
        "length_penalty": alpha,
        "length_penalty_kind": penalty_kind(alpha),
        "max_length": found.max_length or 0,
        "min_length": found.min_new_tokens + 1 if found.min_new_tokens else 0,
    }
    return from_mapping(DecodingConfig, values, str(folder.path / name), "decoding.")
