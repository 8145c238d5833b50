"""The trained model: one relocatable folder that translates by itself.

    config.yaml  weights.safetensors  tokenizer.model  scores.json  README.md

Nothing in it is unpickled and nothing that it names is instantiated. It may come from a stranger:
each part is checked before memory is taken for what it asks for.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from nmt.config import (
    DecodingConfig,
    ModelConfig,
    TiedEmbeddings,
    from_mapping,
    is_language_code,
    load_values,
    save_config,
)
from nmt.data.batch import SpecialIds
from nmt.errors import UserError, one_line
from nmt.files import atomic_folder, atomic_path, check_readable, file_inside
from nmt.model.transformer import Transformer, count_parameters, planned_parameters
from nmt.tokenizer import Tokenizer, tokenizer_files

CONFIG_FILE = "config.yaml"
WEIGHTS_FILE = "weights.safetensors"
SCORES_FILE = "scores.json"
README_FILE = "README.md"

FORMAT_VERSION = 1


@dataclass(frozen=True)
class TrainedModelConfig:
    """What `config.yaml` of a model folder holds; it needs nothing outside the folder."""

    format_version: int = FORMAT_VERSION
    """Version of the folder's layout."""
    source_language: str = "en"
    """Code of the language translated from."""
    target_language: str = "de"
    """Code of the language translated into."""
    joint_vocabulary: bool = True
    """One tokenizer for both languages."""
    max_source_length: int = 256
    """Longest source in tokens, EOS included, that training let in; longer ones are cut."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Sizes and variants."""
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """The search that its scores were made with."""

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):
            if not is_language_code(getattr(self, name)):
                raise UserError(f"{name}={getattr(self, name)!r} is no language code such as en")
        # One place is EOS's.
        if not 2 <= self.max_source_length <= self.model.max_length:
            raise UserError(
                f"max_source_length={self.max_source_length} is not between 2 and"
                f" model.max_length={self.model.max_length}"
            )
        if not self.joint_vocabulary and self.model.tied_embeddings is TiedEmbeddings.three_way:
            raise UserError("model.tied_embeddings=three_way needs joint_vocabulary=true")


@dataclass(frozen=True)
class TrainedModel:
    """A model with its tokenizers, ready to translate."""

    config: TrainedModelConfig
    transformer: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.transformer.output_weight.device


def weights_digest(folder: Path) -> str:
    """SHA-256 of a model folder's weights, which tells models apart."""
    with file_inside(folder, WEIGHTS_FILE).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def special_ids(tokenizer: Tokenizer) -> SpecialIds:
    """The ids that frame this tokenizer's sentences."""
    return SpecialIds(tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)


def save_weights(transformer: Transformer, path: Path) -> None:
    """Write the parameters as safetensors, atomically; a tied matrix is written once."""
    tensors = {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in transformer.named_parameters()
    }
    needed = sum(tensor.nbytes for tensor in tensors.values())
    with atomic_path(path, needed) as temporary:
        save_file(tensors, temporary)


def weight_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of each weight of a safetensors file, by its header; no tensor is read.

    Raises:
        UserError: the file is missing or damaged, or holds anything but float32.
    """
    with _safetensors(path) as file:
        return _shapes(file, path)


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read the weights of a safetensors file.

    Raises:
        UserError: the file is missing or damaged, or holds anything but finite float32 numbers.
    """
    with _safetensors(path) as file:
        weights: dict[str, torch.Tensor] = {
            name: file.get_tensor(name) for name in _shapes(file, path)
        }
    for name, tensor in weights.items():
        # The extremes of a tensor are NaN as soon as one of its numbers is.
        if not torch.stack(tensor.aminmax()).isfinite().all():
            raise UserError(
                f"{path}: {name} holds NaN or infinity: its training diverged, or it is damaged"
            )
    return weights


@contextmanager
def _safetensors(path: Path) -> Iterator[Any]:
    check_readable(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: is damaged: {error}") from None


def _shapes(file: Any, path: Path) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in file.keys():  # noqa: SIM118 -- it is no mapping
        tensor = file.get_slice(name)
        dtype, shapes[name] = tensor.get_dtype(), tuple(tensor.get_shape())
        # With no size of 0, no size is larger than the file.
        if dtype != "F32" or 0 in shapes[name]:
            raise UserError(
                f"{path}: {name} is {dtype} of shape {shapes[name]}; weights are F32, none is empty"
            )
    return shapes


def load_weights(transformer: Transformer, weights: dict[str, torch.Tensor], origin: Path) -> None:
    """Copy `weights` into the model.

    Raises:
        UserError: names or shapes are not those of this model.
    """
    parameters = dict(transformer.named_parameters())
    if parameters.keys() != weights.keys():
        odd = min(parameters.keys() ^ weights.keys())
        raise UserError(f"{origin}: holds weights of another model: {odd} is in only one of them")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise UserError(
                    f"{origin}: {name} has shape {tuple(weights[name].shape)}, the configuration"
                    f" and the tokenizer ask for {tuple(parameter.shape)}"
                )
            parameter.copy_(weights[name])


def save_trained_model(model: TrainedModel, folder: Path, scores: dict[str, Any]) -> None:
    """Write the whole folder, atomically; an older one is replaced."""
    config = model.config
    files = tokenizer_files(config.joint_vocabulary, config.source_language, config.target_language)
    tokenizers = (model.source_tokenizer, model.target_tokenizer)
    needed = 4 * count_parameters(model.transformer)  # float32
    needed += sum(tokenizer.path.stat().st_size for tokenizer in tokenizers)
    with atomic_folder(folder, needed) as temporary:
        save_config(config, temporary / CONFIG_FILE)
        save_weights(model.transformer, temporary / WEIGHTS_FILE)
        for tokenizer, name in zip(tokenizers, files, strict=True):
            shutil.copyfile(tokenizer.path, temporary / name)
        text = json.dumps(scores, ensure_ascii=False, indent=2)
        (temporary / SCORES_FILE).write_text(text + "\n", encoding="utf-8")
        readme = _readme(config, count_parameters(model.transformer), scores)
        (temporary / README_FILE).write_text(readme, encoding="utf-8")


def load_trained_model(folder: Path, device: torch.device | None = None) -> TrainedModel:
    """Load a model folder, ready to translate.

    Raises:
        UserError: the folder is missing, lacks a part, a part is damaged or leads out of the
            folder, or its parts do not fit together. The message is one line.
    """
    try:
        return _load(folder, device)
    except UserError as error:
        raise UserError(one_line(error)) from None


def _load(folder: Path, device: torch.device | None) -> TrainedModel:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model folder; train one with `make train`")
    if os.path.isfile(folder / "model" / CONFIG_FILE):
        raise UserError(f"{folder} is a run; its model folder is {folder / 'model'}")
    config = _load_config(file_inside(folder, CONFIG_FILE))
    files = tokenizer_files(config.joint_vocabulary, config.source_language, config.target_language)
    tokenizers = {name: Tokenizer(file_inside(folder, name)) for name in dict.fromkeys(files)}
    source_tokenizer, target_tokenizer = (tokenizers[name] for name in files)
    sizes = (source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size)
    weights_path = file_inside(folder, WEIGHTS_FILE)
    # The configuration may ask for any sizes: the file has to vouch for the memory that they take.
    # Up to twice its own, the model is made, and the tensor that differs can be named.
    held = sum(math.prod(shape) for shape in weight_shapes(weights_path).values())
    if planned_parameters(config.model, *sizes) > 2 * held:
        raise UserError(
            f"{weights_path}: holds {held:,} numbers, less than half of what {CONFIG_FILE} and the"
            " tokenizer ask for"
        )
    transformer = Transformer(config.model, *sizes)
    load_weights(transformer, read_weights(weights_path), weights_path)
    transformer.eval().requires_grad_(False)
    if device is not None:
        transformer.to(device)
    return TrainedModel(config, transformer, source_tokenizer, target_tokenizer)


def _load_config(path: Path) -> TrainedModelConfig:
    values = load_values(path)
    # Before anything else is read: a newer format may well have keys that are unknown here.
    version = values.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version={version} is newer than this program, which reads up"
            f" to {FORMAT_VERSION}; update the program"
        )
    missing = sorted({field.name for field in fields(TrainedModelConfig)} - values.keys())
    if missing:
        raise UserError(f"{path}: lacks the key {missing[0]}; the folder is damaged")
    # True is an int too.
    if type(version) is not int or version < 1:
        raise UserError(f"{path}: format_version={version!r} is no version, which count from 1")
    config: TrainedModelConfig = from_mapping(TrainedModelConfig, values, str(path))
    return config


def _readme(config: TrainedModelConfig, num_parameters: int, scores: dict[str, Any]) -> str:
    direction = f"{config.source_language}-{config.target_language}"
    lines = [
        f"# Translator {direction}",
        "",
        f"An encoder-decoder Transformer of {num_parameters:,} parameters. This"
        " folder is all it needs; it can be moved and copied.",
        "",
        "    python -m nmt.cli.translate model=THIS_FOLDER file=TEXT",
        "",
    ]
    for split, table in scores.get("test_sets", {}).items():
        bleu = table["bleu"]
        lines.append(f"- {split}: BLEU {bleu['score']:.2f} `{bleu['signature']}`")
    if scores.get("generated_corpus"):
        lines += ["", "Its corpus is generated: these scores compare with nothing."]
    return "\n".join(lines) + "\n"
