"""The model folder: a trained model that can be moved and copied.

    config.yaml  weights.safetensors  tokenizer.model  scores.json  README.md

The folder may come from an untrusted source: nothing in it is unpickled, no class that it names is
instantiated, and sizes are checked before memory is allocated.
"""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from nmt.base.errors import UserError, one_line
from nmt.base.files import (
    atomic_folder,
    atomic_path,
    check_readable,
    file_inside,
    is_forbidden,
    read_lines,
    to_json,
    to_lines,
)
from nmt.base.layout import (
    CONFIDENCE_FILE,
    CONFIG_FILE,
    MODEL_FOLDER,
    README_FILE,
    SCORES_FILE,
    WEIGHTS_FILE,
    WORDS_FILE,
)
from nmt.config import (
    DecodingConfig,
    ModelConfig,
    checked_dataclass,
    from_file_values,
    is_language_code,
    load_values,
    save_config,
)
from nmt.model.build import build_model, count_parameters, meta_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer, tokenizer_files

FORMAT_VERSION = 1


@checked_dataclass
class TrainedModelConfig:
    """Contents of `config.yaml` in a model folder."""

    format_version: int = FORMAT_VERSION
    """Version of the folder's layout."""
    source_language: str = "en"
    """Code of the source language."""
    target_language: str = "de"
    """Code of the target language."""
    joint_vocabulary: bool = True
    """Whether both languages share one tokenizer."""
    max_source_length: int = 256
    """Maximum source length in training, in tokens including EOS; longer texts are translated in
    segments."""
    terminology: bool = False
    """Whether the model was trained with terms of glossaries in its sources."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """Architecture, sizes and variants."""
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """Search settings; the scores in `scores.json` were computed with them."""

    def __post_init__(self) -> None:
        for name in ("source_language", "target_language"):
            if not is_language_code(getattr(self, name)):
                raise UserError(f"{name}={getattr(self, name)!r} is not a language code such as en")
        if not 2 <= self.max_source_length <= self.model.max_length:
            raise UserError(
                f"max_source_length={self.max_source_length} is not between 2 and"
                f" model.max_length={self.model.max_length}"
            )

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of source and target language."""
        return self.source_language, self.target_language

    @property
    def direction(self) -> str:
        """Both codes, such as `en-de`."""
        return "-".join(self.languages)


@dataclass(frozen=True)
class TrainedModel:
    """A network with its configuration and tokenizers."""

    config: TrainedModelConfig
    network: EncoderDecoder
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.network.output_weight.device


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of the weights file in a model folder, as an identifier of the model."""
    with file_inside(folder, WEIGHTS_FILE).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def save_weights(network: EncoderDecoder, path: Path) -> None:
    """Write the parameters as safetensors, atomically. Tied matrices are written once."""
    tensors = {
        name: parameter.detach().to("cpu", torch.float32).contiguous()
        for name, parameter in network.named_parameters()
    }
    needed = sum(tensor.nbytes for tensor in tensors.values())
    with atomic_path(path, needed) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(tensors, temporary)
        temporary.chmod(mode)  # safetensors writes files that no other user may read


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Read the weights of a safetensors file.

    Raises:
        UserError: the file is missing or damaged, or holds anything but finite float32 numbers.
    """
    check_readable(path)
    weights: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 -- `file` is not a mapping
                header = file.get_slice(name)
                dtype, shape = header.get_dtype(), tuple(header.get_shape())
                if dtype != "F32" or 0 in shape:
                    raise UserError(
                        f"{path}: {name} is {dtype} of shape {shape}; weights must be F32 and not"
                        " empty"
                    )
                weights[name] = file.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: is damaged: {error}") from None
    for name, tensor in weights.items():
        # The minimum and maximum are NaN if any number is.
        if not torch.stack(tensor.aminmax()).isfinite().all():
            raise UserError(
                f"{path}: {name} holds NaN or infinity: the training diverged or the file is"
                " damaged; choose another checkpoint, or another copy of the file"
            )
    return weights


def load_weights(network: EncoderDecoder, weights: dict[str, torch.Tensor], origin: Path) -> None:
    """Copy weights into a network; error messages name their file or folder, `origin`.

    Raises:
        UserError: names or shapes differ from those of the network's parameters.
    """
    parameters = dict(network.named_parameters())
    if parameters.keys() != weights.keys():
        name = min(parameters.keys() ^ weights.keys())
        raise UserError(f"{origin}: holds weights of another model: {name} is in one of them only")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise UserError(
                    f"{origin}: {name} has shape {tuple(weights[name].shape)}, but the"
                    f" configuration and the tokenizer require {tuple(parameter.shape)}"
                )
            parameter.copy_(weights[name])


def build_from_weights(
    config: ModelConfig, sizes: Iterable[int], weights: dict[str, torch.Tensor], origin: Path
) -> EncoderDecoder:
    """Build a network for translation from weights; `sizes` are the sizes of both vocabularies."""
    network = build_model(config, *sizes)
    load_weights(network, weights, origin)
    return network.eval().requires_grad_(False)


def save_trained_model(
    model: TrainedModel,
    folder: Path,
    scores: dict[str, Any],
    readme: str = "",
    words: Sequence[str] = (),
    confidence: dict[str, Any] | None = None,
) -> None:
    """Write a model folder with `scores.json` and `README.md`, atomically; replace an old one.

    `words` are word forms of the target language; `confidence` is that of `confidence.json`.
    """
    config = model.config
    files = tokenizer_files(config.joint_vocabulary, *config.languages)
    needed = 4 * count_parameters(model.network)  # float32
    needed += sum(tokenizer.path.stat().st_size for tokenizer in model.tokenizers)
    with atomic_folder(folder, needed) as temporary:
        save_config(config, temporary / CONFIG_FILE)
        save_weights(model.network, temporary / WEIGHTS_FILE)
        for tokenizer, name in zip(model.tokenizers, files, strict=True):
            shutil.copyfile(tokenizer.path, temporary / name)
        (temporary / SCORES_FILE).write_text(to_json(scores), encoding="utf-8")
        readme = readme or f"# Translator {config.direction}\n"
        (temporary / README_FILE).write_text(readme, encoding="utf-8")
        if confidence:
            (temporary / CONFIDENCE_FILE).write_text(to_json(confidence), encoding="utf-8")
        if words:
            (temporary / WORDS_FILE).write_text(to_lines(words), encoding="utf-8")


def word_forms(folder: Path) -> list[str]:
    """Return the word forms of the target language of a model folder, if it has any."""
    return read_lines(file_inside(folder, WORDS_FILE)) if (folder / WORDS_FILE).exists() else []


def model_folder(folder: Path) -> Path:
    """Return the model folder of a run folder, or the folder itself if it is not a run."""
    is_run = (folder / MODEL_FOLDER / CONFIG_FILE).is_file()
    return folder / MODEL_FOLDER if is_run else folder


def is_model(folder: Path) -> bool:
    """Return whether a folder is a model folder; UserError if this user may not read it."""
    config = folder / CONFIG_FILE
    if is_forbidden(config):
        raise UserError(f"{config}: cannot be read: permission denied")
    return config.is_file() and (folder / WEIGHTS_FILE).is_file()


def load_trained_model(folder: Path, device: torch.device | str = "cpu") -> TrainedModel:
    """Load a model folder, or the model of a run folder, for translation on a device.

    Raises:
        UserError: the folder or a file of it is missing, a file is damaged or leads out of the
            folder, or the files do not match. The message is one line.
    """
    try:
        return _load(model_folder(folder), device)
    except UserError as error:
        raise UserError(one_line(error)) from None


def _load(folder: Path, device: torch.device | str) -> TrainedModel:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; train a model with `make train`")
    config = _load_config(file_inside(folder, CONFIG_FILE))
    files = tokenizer_files(config.joint_vocabulary, *config.languages)
    tokenizers = {name: Tokenizer(file_inside(folder, name)) for name in dict.fromkeys(files)}
    source_tokenizer, target_tokenizer = (tokenizers[name] for name in files)
    sizes = source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    weights = read_weights(weights_path := file_inside(folder, WEIGHTS_FILE))
    # Building takes memory for all parameters. `load_weights` reports smaller differences by name.
    num_values = sum(tensor.numel() for tensor in weights.values())
    try:
        num_parameters = count_parameters(meta_model(config.model, *sizes))
    except UserError as error:
        raise UserError(f"{folder / CONFIG_FILE}: {error}") from None
    if num_parameters > 2 * num_values:
        raise UserError(
            f"{weights_path}: holds {num_values:,} numbers, less than half of what {CONFIG_FILE}"
            " and the tokenizer require"
        )
    network = build_from_weights(config.model, sizes, weights, weights_path)
    return TrainedModel(config, network.to(device), source_tokenizer, target_tokenizer)


def _load_config(path: Path) -> TrainedModelConfig:
    values = {"terminology": False, **load_values(path)}  # older folders lack this key
    if "run" in values:
        raise UserError(f"{path.parent}: this run has no model yet; its command continues it")
    # The version is checked first, because another version may have other keys.
    version = values.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise UserError(
            f"{path}: format_version={version!r}, but this program reads {FORMAT_VERSION}; use the"
            " version of the program that wrote the folder"
        )
    missing = sorted({field.name for field in fields(TrainedModelConfig)} - values.keys())
    if missing:
        raise UserError(f"{path}: lacks the key {missing[0]}; copy the folder again")
    return from_file_values(TrainedModelConfig, values, path)
