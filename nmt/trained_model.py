"""The trained model: one relocatable folder that translates by itself.

    config.yaml  weights.safetensors  tokenizer.model  scores.json  README.md

Nothing in it is unpickled and nothing that it names is instantiated.
"""

import json
import shutil
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from nmt.config import (
    DecodingConfig,
    ModelConfig,
    TiedEmbeddings,
    from_mapping,
    load_values,
    save_config,
)
from nmt.data.batch import SpecialIds
from nmt.errors import UserError
from nmt.files import atomic_folder, atomic_path
from nmt.model.transformer import Transformer, count_parameters
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


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read a safetensors file.

    Raises:
        UserError: the file is missing or damaged.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; the model folder lacks its weights")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: is damaged: {error}") from None


def load_weights(transformer: Transformer, weights: dict[str, torch.Tensor], origin: Path) -> None:
    """Copy `weights` into the model.

    Raises:
        UserError: names or shapes are not those of this model.
    """
    parameters = dict(transformer.named_parameters())
    if parameters.keys() != weights.keys():
        odd = sorted(parameters.keys() ^ weights.keys())
        raise UserError(
            f"{origin}: holds weights of another model: {odd[0]} is in only one of them"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise UserError(
                    f"{origin}: {name} has shape {tuple(weights[name].shape)}, the configuration"
                    f" asks for {tuple(parameter.shape)}"
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
        UserError: the folder is missing, lacks a part, or its parts do not fit together.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model folder; train one with `make train`")
    config_path = folder / CONFIG_FILE
    if (folder / "model" / CONFIG_FILE).is_file():
        raise UserError(f"{folder} is a run; its model folder is {folder / 'model'}")
    if not config_path.is_file():
        raise UserError(f"{config_path}: no such file; {folder} is not a whole model folder")
    values = load_values(config_path)
    # Before anything else is read: a newer format may well have keys that are unknown here.
    version = values.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise UserError(
            f"{config_path}: format_version={version} is newer than this program, which reads up"
            f" to {FORMAT_VERSION}; update the program"
        )
    missing = sorted({field.name for field in fields(TrainedModelConfig)} - values.keys())
    if missing:
        raise UserError(f"{config_path}: lacks the key {missing[0]}; the folder is damaged")
    config: TrainedModelConfig = from_mapping(TrainedModelConfig, values, str(config_path))
    files = tokenizer_files(config.joint_vocabulary, config.source_language, config.target_language)
    source_tokenizer, target_tokenizer = (Tokenizer(folder / name) for name in files)
    transformer = Transformer(
        config.model, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    )
    weights_path = folder / WEIGHTS_FILE
    load_weights(transformer, read_weights(weights_path), weights_path)
    transformer.eval().requires_grad_(False)
    if device is not None:
        transformer.to(device)
    return TrainedModel(config, transformer, source_tokenizer, target_tokenizer)


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
