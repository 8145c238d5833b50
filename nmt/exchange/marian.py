"""Export to Marian, and to its fork Bergamot, which browsers and translateLocally use.

    model.npz  model.bin  vocab.spm (or source.spm and target.spm)  decoder.yml

`model.npz` and `model.bin` hold the same arrays in float32. Matrices are transposed, except
embeddings. Vectors are matrices with one row. As in Hugging Face's classes, the sines of a position
are in the first half of a vector, so every axis of the model width is reordered.
"""

import re
import shutil
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from torch import Tensor

from nmt.config import TiedEmbeddings
from nmt.exchange.ctranslate2 import CTranslate2Runtime
from nmt.exchange.foreign_weights import EMBEDDINGS, NEVER, half_split, reorder
from nmt.exchange.interface import (
    Runtime,
    check_head_widths,
    check_values,
    transformer_of,
    usage_of,
)
from nmt.model.positions import sinusoidal_table
from nmt.search.hypothesis import penalty_exponent
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel

_FIXED = Path(__file__).with_name("marian_settings.yaml")
FIXED_SETTINGS: dict[str, Any] = yaml.safe_load(_FIXED.read_text(encoding="utf-8"))
"""Options of Marian with one value in all models that this program can represent."""

MODEL_SETTINGS = {
    "dim-emb": "width",
    "enc-depth": "num_encoder_layers",
    "dec-depth": "num_decoder_layers",
    "transformer-heads": "num_heads",
    "transformer-dim-ffn": "feed_forward_width",
}
"""Key of our `model` with the same value, by option of Marian."""

ACTIVATIONS = {"relu": "relu", "swish": "silu"}  # their name → ours
SETTINGS = "special:model.yml"
DECODER_FILE = "decoder.yml"
OUTPUT_BIAS = "decoder_ff_logit_out_b"
_MODEL, _BINARY = "model.npz", "model.bin"
_JOINT, _SOURCE, _TARGET = "vocab.spm", "source.spm", "target.spm"
_ALIGNMENT = 256  # bytes
_FLOAT32, _INT8 = 0x404, 0x101  # types in a binary file

_OUTER_NAMES = {
    "source_embedding.weight": "encoder_Wemb",
    "target_embedding.weight": "decoder_Wemb",
    "output_bias": OUTPUT_BIAS,
}
_OUTPUT_WEIGHTS = {
    TiedEmbeddings.three_way: "Wemb",
    TiedEmbeddings.target: "decoder_Wemb",
    TiedEmbeddings.none: "decoder_ff_logit_out_Wt",
}
_SUBLAYERS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
_LINEARS = {"query": "q", "key": "k", "value": "v", "output": "o", "inner": "1", "outer": "2"}
_LAYER_WEIGHT = re.compile(r"(\w+)\.(\d+)\.(\w+?)(_residual)?\.(\w+)\.(weight|bias)")


class MarianExporter:
    """Writes a model in both formats of Marian; see `Exporter`."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if Marian does not support the model."""
        transformer_of(model)
        config = model.config.model
        supported = {
            # In pre-norm self-attention, Marian computes keys and values from inputs that are not
            # normalized: version 1.9 always, version 1.12 in the decoder after the first token.
            "norm": ["post"],
            "positions": ["sinusoidal"],
            "timescales": ["marian"],
            "start": ["zero"],
            "activation": [*ACTIVATIONS.values()],
        }
        advice = "use format=onnx"
        check_values(config, supported, "format=marian", f"train with that value, or {advice}")
        check_head_widths(config, advice)

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write weights, tokenizers and the decoder's settings into an empty folder."""
        arrays = _arrays(model)
        np.savez(folder / _MODEL, **arrays)
        _save_binary(folder / _BINARY, arrays)
        for tokenizer, name in zip(model.tokenizers, _vocabularies(model), strict=True):
            shutil.copyfile(tokenizer.path, folder / name)
        search = model.config.decoding
        settings = {
            "relative-paths": True,
            "models": [_MODEL],
            "vocabs": _vocabularies(model),
            "beam-size": search.beam_size,
            "normalize": penalty_exponent(search),
            "word-penalty": 0,
            # This factor times the source length is Marian's limit, which is never below our
            # limit, ratio * length + offset.
            "max-length-factor": search.max_length_ratio + search.max_length_offset,
        }
        (folder / DECODER_FILE).write_text(yaml.safe_dump(settings, sort_keys=False))

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open `model.npz` with CTranslate2."""
        source, target = (Tokenizer(folder / name) for name in _vocabularies(model))
        exported = replace(model, source_tokenizer=source, target_tokenizer=target)
        return [open_arrays(exported, folder / _MODEL)]

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export."""
        names = " and ".join(f"`{name}`" for name in dict.fromkeys(_vocabularies(model)))
        return usage_of("marian", decoder_file=DECODER_FILE, binary=_BINARY, vocabularies=names)


def open_arrays(model: TrainedModel, path: Path) -> CTranslate2Runtime:
    """Convert arrays of Marian to CTranslate2, and open the result.

    CTranslate2's converter would give the model the sinusoids of the paper. Marian's sinusoids are
    therefore added to the arrays as trained positions. An import may have added pieces to the
    tokenizers; these get new rows, and the probability zero. Other arrays are converted unchanged.

    Args:
        model: the same model in torch, with at least the pieces of the Marian model.
        path: the arrays, `.npz`.
    """
    from ctranslate2.converters import MarianConverter  # noqa: PLC0415

    temporary, config = tempfile.TemporaryDirectory(), model.config.model
    root = Path(temporary.name)
    table = sinusoidal_table(config.max_length, config.width, config.timescales)
    with np.load(path, allow_pickle=False) as arrays:
        padded = {name: _padded(model, name, array) for name, array in arrays.items()}
    padded["Wpos"] = table[:, half_split(config.width)].numpy()
    np.savez(root / _MODEL, **padded)
    vocabularies = [root / _SOURCE, root / _TARGET]
    for tokenizer, vocabulary in zip(model.tokenizers, vocabularies, strict=True):
        # In single quotes, because the converter changes backslashes in double quotes.
        pieces = [piece.replace("'", "''") for piece in tokenizer.all_pieces()]
        lines = [f"'{piece}': {index}\n" for index, piece in enumerate(pieces)]
        vocabulary.write_text("".join(lines), encoding="utf-8")
    converter = MarianConverter(str(root / _MODEL), [*map(str, vocabularies)])
    converter.convert(str(root / "converted"))
    program = "CTranslate2, which has converted Marian's arrays"
    return CTranslate2Runtime(model, root / "converted", program, temporary=temporary)


def _padded(model: TrainedModel, name: str, array: Any) -> Any:
    source_size, target_size = (tokenizer.vocabulary_size for tokenizer in model.tokenizers)
    if name == OUTPUT_BIAS:
        return np.pad(array, ((0, 0), (0, target_size - array.shape[1])), constant_values=NEVER)
    if name.endswith(("Wemb", "logit_out_Wt")):
        size = source_size if name.startswith("encoder") else target_size
        return np.pad(array, ((0, size - len(array)), (0, 0)))
    return array


def marian_name(name: str, tied: TiedEmbeddings) -> str:
    """Return Marian's name of our parameter `name`; a tied matrix is our `output_weight`."""
    match = _LAYER_WEIGHT.fullmatch(name)
    if match is None:
        return _OUTPUT_WEIGHTS[tied] if name == "output_weight" else _OUTER_NAMES[name]
    side, index, sublayer, is_residual, module, kind = match.groups()
    begin = f"{side}_l{int(index) + 1}_{_SUBLAYERS[sublayer]}"
    if is_residual:
        part = "ffn" if sublayer == "feed_forward" else "Wo"
        return f"{begin}_{part}_ln_{'scale' if kind == 'weight' else 'bias'}"
    return f"{begin}_{'W' if kind == 'weight' else 'b'}{_LINEARS[module]}"


def in_shape(name: str, weight: Tensor) -> Tensor:
    """Convert a weight from our shape to Marian's or back; the module's docstring has the rules."""
    if name.endswith("bias") or "norm." in name:
        return weight[None] if weight.dim() == 1 else weight[0]
    return weight if name in EMBEDDINGS else weight.T


def _arrays(model: TrainedModel) -> dict[str, Any]:
    config, order = model.config.model, half_split(model.config.model.width)
    arrays = {}
    for name, parameter in model.network.named_parameters():
        weight = in_shape(name, reorder(name, parameter.detach().cpu().float(), order))
        theirs = marian_name(name, config.tied_embeddings)
        arrays[theirs] = np.ascontiguousarray(weight.numpy())
    zero = np.zeros((1, model.target_tokenizer.vocabulary_size), np.float32)
    arrays.setdefault(OUTPUT_BIAS, zero)  # older versions of Marian require it
    text = yaml.safe_dump(_settings(model)).encode() + b"\0"
    return {SETTINGS: np.frombuffer(text, np.int8), **arrays}


def _settings(model: TrainedModel) -> dict[str, Any]:
    """Return the options of Marian that describe the network."""
    config = model.config.model
    activations = {ours: theirs for theirs, ours in ACTIVATIONS.items()}
    return {
        "version": "v1.12.0",
        "dim-vocabs": [tokenizer.vocabulary_size for tokenizer in model.tokenizers],
        **{theirs: getattr(config, ours) for theirs, ours in MODEL_SETTINGS.items()},
        "tied-embeddings-all": config.tied_embeddings is TiedEmbeddings.three_way,
        "tied-embeddings": config.tied_embeddings is TiedEmbeddings.target,
        "transformer-ffn-activation": activations[config.activation],
        "transformer-guided-alignment-layer": "last",
        **FIXED_SETTINGS,
    }


def _vocabularies(model: TrainedModel) -> list[str]:
    """Return the file names of the source and the target vocabulary."""
    same = model.source_tokenizer.path == model.target_tokenizer.path
    return [_JOINT, _JOINT] if same else [_SOURCE, _TARGET]


def _save_binary(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays in Marian's binary format, version 1."""
    names = [name.encode() + b"\0" for name in arrays]
    contents = [array.tobytes() for array in arrays.values()]
    contents = [content + b"\0" * (-len(content) % _ALIGNMENT) for content in contents]
    head = struct.pack("<QQ", 1, len(arrays))
    for name, array, content in zip(names, arrays.values(), contents, strict=True):
        kind = _FLOAT32 if array.dtype == np.float32 else _INT8
        head += struct.pack("<QQQQ", len(name), kind, array.ndim, len(content))
    head += b"".join(names)
    for array in arrays.values():
        head += struct.pack(f"<{array.ndim}i", *array.shape)
    offset = -(len(head) + 8) % _ALIGNMENT
    head += struct.pack("<Q", offset) + b"\0" * offset
    path.write_bytes(head + b"".join(contents))
