"""Arguments that select a model, a device, an engine and a search."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt import trained_model
from nmt.base.errors import UserError
from nmt.cli.arguments import group
from nmt.cli.common import print_line
from nmt.config import DecodingConfig, from_mapping, to_plain
from nmt.exchange.engines import EngineName
from nmt.runs.experiment import find_model
from nmt.trained_model import TrainedModel, load_trained_model


@dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """Arguments of commands that use one model."""

    model: str = ""
    """Model or run folder (default: the last completed run)."""
    device: str = ""
    """Device: cpu or cuda (default: cuda if available)."""
    decoding: dict[str, str] = group(DecodingConfig)
    """Settings of the search (default: those of the model's scores)."""


@dataclass(frozen=True, kw_only=True)
class EngineArguments:
    """Arguments of commands that choose the program that searches."""

    engine: EngineName = EngineName.torch
    """Program that searches with the model's weights."""
    compute_type: str = ""
    """engine=ctranslate2: arithmetic, such as float32 or int8 (default: float32)."""

    @property
    def engine_note(self) -> str:
        """Name of the engine in files of scores; empty for torch."""
        if self.engine is EngineName.torch:
            return ""
        return f"{self.engine.name} {self.compute_type or 'float32'}"


def model_folder(name: str) -> Path:
    """Return the model folder that an argument names; empty names the last completed run."""
    return trained_model.model_folder(Path(name)) if name else find_model()


def open_model(folder: Path, device: str) -> TrainedModel:
    """Load a model and print its folder and direction.

    Raises:
        UserError: the device is not available, or the folder is damaged.
    """
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    match = re.fullmatch(r"(cpu|cuda)(?::(\d{1,3}))?", name)
    if match is None:
        raise UserError(f"device={name} is not supported; give cpu, cuda or cuda:NUMBER")
    count = torch.cuda.device_count() if match[1] == "cuda" else 1
    if int(match[2] or 0) >= count:
        raise UserError(f"device={name} is not available on this machine; give device=cpu")
    model = load_trained_model(folder, torch.device(name))
    path, here = folder.resolve(), Path.cwd()  # `latest` is a link
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    print_line(f"model: {shown} ({model.config.source_language}-{model.config.target_language})")
    return model


def decoding_config(model: TrainedModel, overrides: Mapping[str, str]) -> DecodingConfig:
    """Return the model's own search with the user's changes."""
    values = {**to_plain(model.config.decoding), **overrides}
    config: DecodingConfig = from_mapping(DecodingConfig, values, "arguments", "decoding.")
    return config
