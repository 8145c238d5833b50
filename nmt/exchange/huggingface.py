"""Export to the classes Marian and Pegasus of Hugging Face's transformers.

Marian is the post-norm Transformer of the paper, Pegasus the pre-norm one. Both add sinusoidal
positions.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from nmt.base.errors import UserError
from nmt.base.files import write_json
from nmt.config import (
    LengthPenalty,
    ModelConfig,
    NormPlacement,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
)
from nmt.exchange.foreign_tokenizer import plain_piece, tokenizer_json
from nmt.exchange.foreign_weights import NEVER, half_split, reorder
from nmt.exchange.interface import (
    Runtime,
    check_head_widths,
    check_values,
    transformer_of,
    usage_of,
)
from nmt.exchange.transformers_runtime import EXACT, TransformersRuntime
from nmt.model.positions import sinusoidal_table
from nmt.search.hypothesis import penalty_exponent
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.engine import banned_ids

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}  # our name → theirs
WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE, GENERATION_FILE = "config.json", "generation_config.json"
TOKENIZER_FILE = "tokenizer_config.json"
VOCABULARY_FILE, TARGET_VOCABULARY_FILE = "vocab.json", "target_vocab.json"
SOURCE_FILE, TARGET_FILE = "source.spm", "target.spm"

SETTINGS = {
    "d_model": "width",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "feed_forward_width",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}
"""Key of our `model` with the same value, by key of `config.json`."""

# Applied one after the other, these replacements turn our names into those of Hugging Face.
_RENAMED = (
    ("coder_norm.", "coder.layer_norm."),
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
_MIN_POSITIONS = 1024


class HuggingFaceExporter:
    """Writes what AutoModelForSeq2SeqLM and AutoTokenizer of transformers 4 and 5 load."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if no class supports the model."""
        transformer_of(model)
        config = model.config.model
        advice = "export it with format=onnx"
        if config.head_key_width == config.head_value_width:
            advice += " or format=ctranslate2"
        or_train = f"{advice}, or train with that value"
        check_values(config, {"positions": ["sinusoidal"]}, "format=huggingface", or_train)
        is_tied = config.tied_embeddings is TiedEmbeddings.three_way
        if config.norm is NormPlacement.pre and not is_tied:
            raise UserError(
                f"model.tied_embeddings={config.tied_embeddings} with model.norm=pre:"
                " transformers 4 would load wrong embeddings without a warning;"
                f" {advice}, or train with model.tied_embeddings=three_way"
            )
        check_head_widths(config, advice)
        source, target = map(_special_pieces, model.tokenizers)
        if source != target:
            raise UserError(
                "the special pieces of the two tokenizers (tokenizer.path) have different ids or"
                f" names, which Hugging Face does not support; {advice}"
            )

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write weights, settings and tokenizers into an empty folder."""
        weights = _weights(model)
        config = network_config(model, weights["final_logits_bias"].size(1))
        copies = {  # safetensors rejects tensors that share memory
            name: weight.detach().to("cpu", torch.float32).contiguous().clone()
            for name, weight in weights.items()
        }
        save_file(copies, folder / WEIGHTS_FILE, {"format": "pt"})
        write_tokenizers(model, folder)
        write_json(folder / CONFIG_FILE, config)
        write_json(folder / GENERATION_FILE, generation_config(model))

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open an exported model with transformers."""
        # Without the probability of BOS, which training keeps small, those of all others grow.
        tolerance = 1e-4 if _excludes_bos(model) else EXACT
        return [TransformersRuntime(model, folder, tolerance)]

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        search = model.config.decoding
        is_gnmt = search.length_penalty_kind is LengthPenalty.gnmt
        return usage_of("huggingface", has_other_penalty=is_gnmt and search.beam_size > 1)


def write_tokenizers(model: TrainedModel, folder: Path) -> None:
    """Write the files of AutoTokenizer, and `tokenizer.json` if it can replace both tokenizers."""
    shutil.copyfile(model.source_tokenizer.path, folder / SOURCE_FILE)
    shutil.copyfile(model.target_tokenizer.path, folder / TARGET_FILE)
    source, target = map(_vocabulary, model.tokenizers)
    write_json(folder / TOKENIZER_FILE, _tokenizer_config(model, source != target))
    write_json(folder / VOCABULARY_FILE, source)
    if source != target:
        write_json(folder / TARGET_VOCABULARY_FILE, target)
    elif fast := tokenizer_json(model.source_tokenizer):
        write_json(folder / "tokenizer.json", fast)


def _special_pieces(tokenizer: Tokenizer) -> list[object]:
    ids = tokenizer.unknown_id, tokenizer.bos_id, tokenizer.eos_id
    return [*ids, *tokenizer.pieces(ids)]


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {plain_piece(piece): index for index, piece in enumerate(tokenizer.all_pieces())}


def layer_name(name: str) -> str:
    """Convert our name of a weight of the encoder or decoder to that in Marian and Pegasus."""
    for ours, theirs in _RENAMED:
        name = name.replace(ours, theirs)
    return f"model.{name}"


def _weights(model: TrainedModel) -> dict[str, Tensor]:
    """Return the weights by Hugging Face's names, each reordered along the model width."""
    config, transformer = model.config.model, model.network
    order = half_split(config.width)
    weights = {
        layer_name(name): reorder(name, weight, order)
        for name, weight in transformer.named_parameters()
        if name.startswith(("encoder", "decoder"))
    }
    target_size, bos = model.target_tokenizer.vocabulary_size, model.target_tokenizer.bos_id
    size = max(model.source_tokenizer.vocabulary_size, target_size)

    def padded(matrix: Tensor) -> Tensor:  # transformers 4 has one vocabulary size
        return F.pad(matrix[:, order], (0, 0, 0, size - len(matrix)))

    source = padded(transformer.source_embedding.weight)
    target = padded(transformer.target_embedding.weight)
    bias = torch.full((1, size), NEVER)
    bias[0, :target_size] = 0.0 if transformer.output_bias is None else transformer.output_bias
    output = padded(transformer.output_weight)
    if _excludes_bos(model):
        bias[0, bos] = NEVER  # as an output, the zero row below would have the logit 0
    if config.start is StartEmbedding.zero:
        target[bos] = 0.0
    if config.tied_embeddings is TiedEmbeddings.three_way:
        weights["model.shared.weight"] = target
    else:
        weights["model.encoder.embed_tokens.weight"] = source
        weights["model.decoder.embed_tokens.weight"] = target
        weights["lm_head.weight"] = output
    weights["final_logits_bias"] = bias
    # Pegasus expects stored positions. Marian computes the paper's, unless others are stored.
    if config.norm is NormPlacement.pre or config.timescales is Timescales.marian:
        table = sinusoidal_table(num_positions(config), config.width, config.timescales)
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_positions.weight"] = table[:, order]
    return weights


def _excludes_bos(model: TrainedModel) -> bool:
    """Return whether BOS is an input alone, because its row is zero, and the matrix is tied."""
    config = model.config.model
    is_tied = config.tied_embeddings is TiedEmbeddings.three_way
    row = model.network.source_embedding.weight[model.target_tokenizer.bos_id]
    return config.start is StartEmbedding.zero and is_tied and bool(row.any())


def num_positions(config: ModelConfig) -> int:
    """Return the number of positions of an exported model.

    The pipelines of transformers and transformers.js generate up to 256 tokens by default, even if
    the limit of the model is lower. Computed positions need no training, so exports can have more.
    """
    return max(_MIN_POSITIONS, config.max_length)


def network_config(model: TrainedModel, vocabulary_size: int) -> dict[str, Any]:
    """Return the contents of `config.json`."""
    config = model.config.model
    is_marian = config.norm is NormPlacement.post
    is_tied = config.tied_embeddings is TiedEmbeddings.three_way
    values = {
        "model_type": "marian" if is_marian else "pegasus",
        "architectures": ["MarianMTModel" if is_marian else "PegasusForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": vocabulary_size,
        **{theirs: getattr(config, ours) for theirs, ours in SETTINGS.items()},
        "num_hidden_layers": config.num_encoder_layers,
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.feed_forward_width,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": True,
        "normalize_before": not is_marian,  # for converters to other formats
        "normalize_embedding": False,
        "max_position_embeddings": num_positions(config),
        "tie_word_embeddings": is_tied,
        **_token_ids(model),
    }
    if is_marian:
        values |= {
            "decoder_vocab_size": vocabulary_size,
            "share_encoder_decoder_embeddings": is_tied,
        }
    return values


def _token_ids(model: TrainedModel) -> dict[str, int]:
    tokenizer = model.target_tokenizer
    return {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "forced_eos_token_id": tokenizer.eos_id,
        "decoder_start_token_id": tokenizer.bos_id,
        "pad_token_id": tokenizer.bos_id,  # converters start Marian's decoder with padding
    }


def generation_config(model: TrainedModel) -> dict[str, Any]:
    """Return the contents of `generation_config.json`."""
    search = model.config.decoding
    return {
        **_token_ids(model),
        "num_beams": search.beam_size,
        "length_penalty": penalty_exponent(search),
        "max_length": model.config.model.max_length,
        "min_new_tokens": max(0, search.min_length - 1),
        "suppress_tokens": sorted(banned_ids(model.target_tokenizer)),
    }


def _tokenizer_config(model: TrainedModel, separate: bool) -> dict[str, Any]:
    tokenizer = model.target_tokenizer
    special = tokenizer.unknown_id, tokenizer.eos_id, _token_ids(model)["pad_token_id"]
    keys = "unk_token", "eos_token", "pad_token"
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": model.config.source_language,
        "target_lang": model.config.target_language,
        **dict(zip(keys, tokenizer.pieces(special), strict=True)),
        "model_max_length": model.config.max_source_length,
        "separate_vocabs": separate,
        "split_special_tokens": True,  # "</s>" in a text is not EOS
        "clean_up_tokenization_spaces": False,
    }
