"""Import of models in the format of Hugging Face, such as OPUS-MT and our own exports.

The decoder of Marian starts from the padding token, ours from BOS. If the vocabulary lacks BOS, BOS
gets a new last row of the embeddings, and a bias makes its probability zero.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import ModelConfig, StartEmbedding, TiedEmbeddings, Timescales, are_languages
from nmt.exchange import huggingface as names
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.foreign_tokenizer import import_tokenizers, pieces_in_order, read_sentencepiece
from nmt.exchange.foreign_weights import NEVER, ForeignWeights, add_pieces, half_split, reorder
from nmt.exchange.huggingface_settings import (
    Settings,
    TokenizerSettings,
    check_model_type,
    decoding_config,
    read_settings,
)
from nmt.exchange.interface import Runtime, imported_model
from nmt.exchange.transformers_runtime import TransformersRuntime
from nmt.model.build import meta_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.positions import sinusoidal_table
from nmt.tokenizer import Tokenizer, tokenizer_files
from nmt.trained_model import TrainedModel, build_from_weights

WEIGHTS_FILES = (names.WEIGHTS_FILE, "pytorch_model.bin")
"""Files of weights. With the ending of an index, a file lists several such files."""

ADDED_FILE = "added_tokens.json"

INDEX_ENDING = ".index.json"
_BIAS = "final_logits_bias"
_SHARED = "model.shared.weight"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_OUTPUT = "lm_head.weight"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_POSITION_TOLERANCE = 4e-3  # bfloat16 rounds numbers below 1 by up to 2e-3


@dataclass(frozen=True)
class _Index:
    """The list of several files of weights: the file by tensor."""

    weight_map: dict[str, str]


class HuggingFaceImporter:
    """Reads folders of Marian and Pegasus with the files of MarianTokenizer."""

    def can_read(self, folder: Path) -> bool:
        """Return whether the folder has the settings of a model of Hugging Face."""
        return (folder / names.CONFIG_FILE).is_file()

    def load(self, folder: ForeignFolder, workspace: Path, direction: str) -> TrainedModel:
        """Read a model; see `Importer.load`."""
        check_model_type(folder)
        settings = read_settings(folder, names.CONFIG_FILE, Settings)
        tokenizing = read_settings(folder, names.TOKENIZER_FILE, TokenizerSettings)
        named = filter(None, (tokenizing.source_lang, tokenizing.target_lang))
        languages = direction.split("-") if direction else list(named)
        if not are_languages(languages):
            what = f"direction={direction} does not name"
            if not direction:
                keys = f"{folder.path / names.TOKENIZER_FILE}: source_lang and target_lang"
                what = f"{keys} are {languages}, which are not"
            raise UserError(f"{what} two different language codes; give two as in direction=en-de")
        path = folder.path / names.CONFIG_FILE
        config = settings.model_config(path)
        weights = _weights(folder)
        bias = _bias(weights, settings.vocab_size)
        sizes, tokenizers = _tokenizers(folder, workspace, tokenizing, languages, bias)
        _check_ids(path, settings, sizes, tokenizers[1])
        folder.file(weights.path.name)
        network = _transformer(weights, settings, config, sizes, tokenizers)
        longest = int(min(tokenizing.model_max_length, config.max_length))
        return imported_model(languages, tokenizers, network, longest, decoding_config(folder))

    def open(self, model: TrainedModel, folder: ForeignFolder) -> Sequence[Runtime]:
        """Open the original model with transformers."""
        path = folder.file(names.CONFIG_FILE)
        _check_same(path, read_settings(folder, names.CONFIG_FILE, Settings))
        runtime = TransformersRuntime(model, folder.path)
        config = model.config.model
        table = sinusoidal_table(config.max_length, config.width, config.timescales)
        runtime.restore_positions(table[:, half_split(config.width)], _POSITION_TOLERANCE)
        return [runtime]


def _check_same(path: Path, settings: Settings) -> None:
    """Raise UserError if transformers gets another size, from a key such as `hidden_size`."""
    from transformers import AutoConfig  # noqa: PLC0415

    config = AutoConfig.from_pretrained(path.parent, local_files_only=True, trust_remote_code=False)
    for key in names.SETTINGS:
        if (value := getattr(settings, key)) != (other := getattr(config, key)):
            raise UserError(f"{path}: {key}={value}, but transformers reads {other} from this file")


def _tokenizers(
    folder: ForeignFolder,
    workspace: Path,
    settings: TokenizerSettings,
    languages: Sequence[str],
    bias: Tensor,
) -> tuple[list[int], list[Tokenizer]]:
    """Write both tokenizers; return the sizes of the foreign vocabularies, and the tokenizers."""
    spm_files = names.SOURCE_FILE, names.TARGET_FILE
    models = [read_sentencepiece(folder.file(name)) for name in spm_files]
    is_separate = settings.separate_vocabs
    target_table = names.TARGET_VOCABULARY_FILE if is_separate else names.VOCABULARY_FILE
    tables = names.VOCABULARY_FILE, target_table
    ids = [read_settings(folder, table, dict[str, int]) for table in tables]
    added = {token.content: int(index) for index, token in settings.added_tokens_decoder.items()}
    if (folder.path / ADDED_FILE).exists():
        added |= read_settings(folder, ADDED_FILE, dict[str, int])
    added = {piece: index for piece, index in added.items() if piece not in ids[0]}
    if not is_separate:
        ids = [{**table, **added} for table in ids]
    # Rows after the last possible output fill up a matrix, as in our exports.
    num_rows = 1 + max((bias > NEVER).nonzero().flatten().tolist(), default=-1)
    sizes = [len(ids[0]) if is_separate else num_rows, num_rows]
    vocabularies = [
        pieces_in_order(table, folder.path / name, max(len(table), size))
        for table, name, size in zip(ids, tables, sizes, strict=True)
    ]
    origins = [
        f"{folder.path / name}: does not fit {table}"
        for name, table in zip(spm_files, tables, strict=True)
    ]
    files = tokenizer_files(not is_separate and models[0] == models[1], *languages)
    tokenizers = import_tokenizers(workspace, files, origins, models, vocabularies, added)
    return [*map(len, vocabularies)], tokenizers


def _check_ids(path: Path, settings: Settings, sizes: Sequence[int], target: Tokenizer) -> None:
    if settings.vocab_size < max(sizes):
        raise UserError(
            f"{path}: vocab_size={settings.vocab_size}, but the vocabulary has {max(sizes)} pieces"
        )
    if settings.eos_token_id != target.eos_id:
        raise UserError(
            f"{path}: eos_token_id={settings.eos_token_id}, but the vocabulary has </s> at"
            f" {target.eos_id}"
        )
    for key in ("decoder_start_token_id", "pad_token_id"):
        if (index := getattr(settings, key)) >= sizes[1]:
            raise UserError(f"{path}: {key}={index} is not in the vocabulary of {sizes[1]} pieces")


def _weights(folder: ForeignFolder) -> ForeignWeights:
    """Read the weights, without unpickling anything but tensors."""
    possible = [file + ending for file in WEIGHTS_FILES for ending in ("", INDEX_ENDING)]
    found = [name for name in possible if os.path.lexists(folder.path / name)]
    if not found:
        raise UserError(
            f"{folder.path}: has neither {' nor '.join(WEIGHTS_FILES)}; export the model with"
            " format=huggingface, because other exports cannot be imported"
        )
    shards = found[:1]
    if found[0].endswith(INDEX_ENDING):
        shards = sorted(set(read_settings(folder, found[0], _Index).weight_map.values()))
    tensors: dict[str, Tensor] = {}
    for path in map(folder.file, shards):
        is_safe = path.suffix == Path(names.WEIGHTS_FILE).suffix
        read = load_file(path) if is_safe else torch.load(path, "cpu", weights_only=True)
        tensors.update(read)
    return ForeignWeights(folder.path / found[0], tensors)


def _transformer(
    weights: ForeignWeights,
    settings: Settings,
    config: ModelConfig,
    sizes: Sequence[int],
    tokenizers: Sequence[Tokenizer],
) -> EncoderDecoder:
    """Build the model from its weights; `sizes` are those of the foreign vocabularies.

    The weights also show which matrices are tied, where the decoder starts, whether the output has
    a bias, and the wavelengths of the positions.
    """
    shape = settings.vocab_size, settings.d_model
    bos_id, (source_size, target_size) = tokenizers[1].bos_id, sizes
    tied = config.tied_embeddings
    if tied is TiedEmbeddings.three_way:
        # The shared matrix is stored under one or more of these names.
        shared = next(filter(weights.__contains__, (_SHARED, _TARGET, _SOURCE, _OUTPUT)), _SHARED)
        source = target = output = weights.take(shared, *shape)
    else:
        source, target = weights.take(_SOURCE, *shape), weights.take(_TARGET, *shape)
        output = target if settings.tie_word_embeddings else weights.take(_OUTPUT, *shape)
        tied = TiedEmbeddings.target if torch.equal(output, target) else TiedEmbeddings.none
    start = target[settings.decoder_start_token_id].clone()
    outer = {
        "source_embedding.weight": source[:source_size],
        "target_embedding.weight": target[:target_size],
        "output_weight": output[:target_size],
        "output_bias": _bias(weights, settings.vocab_size)[:target_size],
    }
    add_pieces(outer, tokenizers)
    target = outer["target_embedding.weight"]
    if start.any() and not torch.equal(target[bos_id], start):
        if bos_id < target_size:
            raise UserError(f"{weights.path}: the decoder starts neither from zero nor from <s>")
        target[bos_id] = start
    # In our models, a tied matrix has only the name of the output.
    if tied is not TiedEmbeddings.none:
        outer["output_weight"] = outer.pop("target_embedding.weight")
    if tied is TiedEmbeddings.three_way:
        del outer["source_embedding.weight"]
    config = replace(
        config,
        tied_embeddings=tied,
        start=StartEmbedding.learned if start.any() else StartEmbedding.zero,
        output_bias="output_bias" in outer,
        timescales=_timescales(weights, config),
    )
    order = half_split(config.width).argsort()
    ours = {name: reorder(name, weight, order) for name, weight in outer.items()}
    new_sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    for name, parameter in meta_model(config, *new_sizes).named_parameters():
        if name.startswith(("encoder", "decoder")):
            weight = weights.take(names.layer_name(name), *parameter.shape)
            ours[name] = reorder(name, weight, order)
    weights.check_all_taken({_SHARED, _SOURCE, _TARGET, _OUTPUT})
    return build_from_weights(config, new_sizes, ours, weights.path)


def _bias(weights: ForeignWeights, size: int) -> Tensor:
    """Return the output bias, zeros if the file has none."""
    return weights.take(_BIAS, 1, size)[0] if _BIAS in weights else torch.zeros(size)


def _timescales(weights: ForeignWeights, config: ModelConfig) -> Timescales:
    """Return the wavelengths of the stored positions, or the paper's if none are stored."""
    shape = config.max_length, config.width
    tables = [weights.take(name, *shape) for name in _POSITIONS if name in weights]
    for timescales in Timescales:
        expected = sinusoidal_table(*shape, timescales)[:, half_split(config.width)]
        if all((table - expected).abs().max() < _POSITION_TOLERANCE for table in tables):
            return timescales
    raise UserError(
        f"{weights.path}: {_POSITIONS[0]} is not sinusoidal; learned positions cannot be imported"
    )
