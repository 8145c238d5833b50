"""Import of models in Marian's own format.

The folder has `decoder.yml`, which names the weights (.npz) and the vocabularies: sentencepiece
models (.spm), or tables of ids (.yml, .json) or lists of pieces beside `source.spm` and
`target.spm`, as in the original releases of OPUS-MT.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from sentencepiece import sentencepiece_model_pb2 as proto
from torch import Tensor

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, ModelConfig, are_languages, from_mapping, load_values
from nmt.exchange import marian
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.foreign_tokenizer import import_tokenizers, pieces_in_order, read_sentencepiece
from nmt.exchange.foreign_weights import ForeignWeights, add_pieces, half_split, reorder
from nmt.exchange.interface import Runtime, imported_model
from nmt.model.build import meta_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.search.hypothesis import penalty_kind
from nmt.tokenizer import Tokenizer, tokenizer_files
from nmt.trained_model import TrainedModel, build_from_weights

_MAX_LENGTH = 512  # Marian has no limit
# YAML 1.2 allows these characters, the controls of C1 and four others, but PyYAML rejects them or
# reads them as line ends. Characters for private use stand for them while it reads.
_UNREADABLE = {code: 0xF0000 + code for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}
_READ = {private: code for code, private in _UNREADABLE.items()}


class MarianImporter:
    """Reads a folder with `decoder.yml`; see `Importer`."""

    def can_read(self, folder: Path) -> bool:
        """Return whether a folder has arrays of Marian."""
        return any(folder.glob("*.npz"))

    def load(self, folder: ForeignFolder, workspace: Path, direction: str) -> TrainedModel:
        """Read a model, and write its tokenizers into a workspace."""
        options = load_values(folder.file(marian.DECODER_FILE))
        vocabularies = _named_files(folder, options, "vocabs", 2)
        [path] = _named_files(folder, options, "models", 1)
        settings, weights = _read_arrays(path)
        config = _model_config(settings, path)
        languages = direction.split("-")
        if not are_languages(languages):
            raise UserError(
                f"direction={direction!r}: {folder.path} does not name its languages; give two"
                " language codes, such as direction=en-de"
            )
        sides = ("source", "encoder_Wemb"), ("target", "decoder_Wemb")
        read = [
            _read_vocabulary(folder, path.name, side, weights.num_rows(matrix, "Wemb"))
            for path, (side, matrix) in zip(vocabularies, sides, strict=True)
        ]
        models, pieces = zip(*read, strict=True)
        is_joint = vocabularies[0] == vocabularies[1] and vocabularies[0].suffix == ".spm"
        files = tokenizer_files(is_joint, *languages)
        origins = [f"{path}: does not fit its sentencepiece model" for path in vocabularies]
        tokenizers = import_tokenizers(workspace, files, origins, models, pieces)
        network = _transformer(config, weights, [*map(len, pieces)], tokenizers)
        decoding = _decoding(options, folder.path / marian.DECODER_FILE)
        return imported_model(languages, tokenizers, network, _MAX_LENGTH, decoding)

    def open(self, model: TrainedModel, folder: ForeignFolder) -> Sequence[Runtime]:
        """Convert Marian's arrays to CTranslate2, and open the result."""
        options = load_values(folder.file(marian.DECODER_FILE))
        return [marian.open_arrays(model, _named_files(folder, options, "models", 1)[0])]


def _named_files(
    folder: ForeignFolder, options: dict[str, Any], key: str, number: int
) -> list[Path]:
    """Return the files that a key of `decoder.yml` names; folders in the names are ignored."""
    names = options.get(key)
    if not isinstance(names, list) or [type(name) for name in names] != [str] * number:
        raise UserError(
            f"{folder.path / marian.DECODER_FILE}: {key}={names!r} does not name {number} file(s)"
        )
    return [folder.file(Path(name).name) for name in names]


def _read_arrays(path: Path) -> tuple[dict[str, Any], ForeignWeights]:
    """Read the settings of the network, which are stored as an array, and the weights."""
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    text = bytes(found.pop(marian.SETTINGS, np.zeros(0, np.int8))).rstrip(b"\0")
    tensors = {
        name: torch.from_numpy(array.astype(np.float32 if array.dtype.kind == "f" else np.int8))
        for name, array in found.items()
    }
    settings = yaml.safe_load(text)
    if not isinstance(settings, dict):
        raise UserError(f"{path}: lacks {marian.SETTINGS}, the settings of a model of Marian")
    return settings, ForeignWeights(path, tensors)


def _model_config(settings: dict[str, Any], path: Path) -> ModelConfig:
    for key, needed in marian.FIXED_SETTINGS.items():
        if (value := settings.get(key, needed)) != needed:
            raise UserError(f"{path}: {key}={value!r}, but this program needs {key}={needed!r}")
    activation = settings.get("transformer-ffn-activation")
    if activation not in marian.ACTIVATIONS:
        raise UserError(
            f"{path}: transformer-ffn-activation={activation!r} is not one of"
            f" {', '.join(marian.ACTIVATIONS)}"
        )
    ties = {"tied-embeddings-all": "three_way", "tied-embeddings": "target"}
    values = {
        **{ours: settings.get(theirs) for theirs, ours in marian.MODEL_SETTINGS.items()},
        "positions": "sinusoidal",
        "timescales": "marian",
        "start": "zero",
        "output_bias": True,
        "activation": marian.ACTIVATIONS[activation],
        "tied_embeddings": next((ours for key, ours in ties.items() if settings.get(key)), "none"),
        "max_length": _MAX_LENGTH,
    }
    return from_mapping(ModelConfig, values, f"{path}: {marian.SETTINGS}")


def _read_vocabulary(
    folder: ForeignFolder, name: str, side: str, num_rows: int
) -> tuple[proto.ModelProto, list[str]]:
    """Return the sentencepiece model of a side, and a piece for each row of its embeddings."""
    if name.endswith(".spm"):
        model = read_sentencepiece(folder.file(name))
        ids = {piece.piece: index for index, piece in enumerate(model.pieces)}
    else:
        model = read_sentencepiece(folder.file(f"{side}.spm"))
        path = folder.file(name)
        ids = _ids(path.read_text(encoding="utf-8-sig"), path.suffix)
    return model, pieces_in_order(ids, folder.path / name, num_rows)


def _ids(text: str, ending: str) -> dict[str, int]:
    """Read the ids of pieces: a table in YAML or JSON, or else a list of pieces, one a line."""
    if ending not in (".yml", ".yaml", ".json"):
        # The file with the ending .vocab that sentencepiece writes has a score after each piece.
        lines = text.removesuffix("\n").split("\n")
        return {line.partition("\t")[0]: index for index, line in enumerate(lines)}
    if ending == ".json":
        values = json.loads(text)
    else:  # CBaseLoader keeps `yes` and `1`, which may be pieces, as text
        values = yaml.load(text.translate(_UNREADABLE), Loader=yaml.CBaseLoader)
    return {str(piece).translate(_READ): int(number) for piece, number in values.items()}


def _transformer(
    config: ModelConfig,
    weights: ForeignWeights,
    sizes: Sequence[int],
    tokenizers: Sequence[Tokenizer],
) -> EncoderDecoder:
    """Build the model; `sizes` are those of the foreign vocabularies."""
    order = half_split(config.width).argsort()
    taken: dict[str, Tensor] = {}
    for ours, parameter in meta_model(config, *sizes).named_parameters():
        theirs = marian.marian_name(ours, config.tied_embeddings)
        shape = marian.in_shape(ours, parameter).shape
        if theirs == marian.OUTPUT_BIAS and theirs not in weights:
            weight = torch.zeros(shape)
        else:
            weight = weights.take(theirs, *shape)
        taken[ours] = reorder(ours, marian.in_shape(ours, weight), order)
    weights.check_all_taken()
    add_pieces(taken, tokenizers)
    config = replace(config, output_bias="output_bias" in taken)
    new_sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    return build_from_weights(config, new_sizes, taken, weights.path)


def _decoding(options: dict[str, Any], path: Path) -> DecodingConfig:
    values = {
        "beam_size": options.get("beam-size", 12),
        "length_penalty": options.get("normalize", 0),
    }
    config: DecodingConfig = from_mapping(DecodingConfig, values, str(path))
    return replace(config, length_penalty_kind=penalty_kind(config.length_penalty))
