"""Interfaces of exporters, importers and other programs, and functions that formats share."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, ModelConfig
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.transformer import Transformer
from nmt.pages.html_page import render_text
from nmt.search.request import Ids
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig

_TEMPLATES = Path(__file__).with_name("templates")


def transformer_of(model: TrainedModel) -> Transformer:
    """Return the Transformer of a model.

    Raises:
        UserError: the model has another architecture, or a variant that no format supports.
    """
    config = model.config.model
    if not isinstance(model.network, Transformer):
        raise UserError(
            f"model.architecture={config.architecture}: only Transformers can be exported;"
            " translate with engine=torch, or train with model.architecture=transformer"
        )
    for key, needed in (("num_experts", 1), ("attention_window", 0)):
        if (value := getattr(config, key)) != needed:
            raise UserError(
                f"model.{key}={value}: no format supports it; translate with engine=torch, or"
                f" train with model.{key}={needed}"
            )
    return model.network


def usage_of(name: str, **values: Any) -> str:
    """Render the template of a format, `templates/<name>.md.jinja`; see `Exporter.usage`."""
    return render_text(_TEMPLATES / f"{name}.md.jinja", values)


def check_values(
    config: ModelConfig, supported: Mapping[str, Collection[object]], format_name: str, advice: str
) -> None:
    """Raise UserError, ending with `advice`, unless each key has one of its `supported` values."""
    for key, values in supported.items():
        if (value := getattr(config, key)) not in values:
            needed = " or ".join(map(str, values))
            raise UserError(
                f"model.{key}={value}: {format_name} needs model.{key}={needed}; {advice}"
            )


def check_head_widths(config: ModelConfig, advice: str) -> None:
    """Raise UserError, ending with `advice`, unless heads have the paper's width, D / H."""
    widths = {"key_width": config.head_key_width, "value_width": config.head_value_width}
    for key, width in widths.items():
        if width * config.num_heads != config.width:
            raise UserError(
                f"model.{key}={width}: this format needs heads of width"
                f" model.width / model.num_heads = {config.width / config.num_heads:g}; {advice}"
            )


class Runtime(Protocol):
    """A model in the format of another program, run by a program that reads this format."""

    program: str
    """The program, and its arithmetic if it is not float32."""

    dtype: torch.dtype
    """The arithmetic: float64 if the program allows it, else float32."""

    tolerance: float
    """Largest accepted difference of a token's log-probability from that of torch, in nats. In
    float32, where torch's log-probability is below -1, its absolute value times this number is
    accepted."""

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources by the tokenizer of the other program, EOS last."""

    def token_log_probs(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS.

        Args:
            sources: ids of each source, without EOS.
            targets: ids of each target, without BOS and EOS.
        """

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate by greedy search, with the tokenizer of the other program.

        The minimum and maximum lengths are those of the model's `decoding` configuration.
        """


class Exporter(Protocol):
    """An export format: writes a model for another program, and opens the written model."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if the format does not support the model.

        The message names the key of the configuration, and a format or value that would fit.
        """

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write the converted model and its tokenizers into an empty folder."""

    def open(self, model: TrainedModel, folder: Path) -> Sequence[Runtime]:
        """Open an exported model, and a copy with 8-bit weights if the export has one.

        Raises:
            ImportError: the package that runs this format is not installed.
        """

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export, in Markdown."""


class Importer(Protocol):
    """An import format: reads a model of another program from a folder of unknown origin."""

    def can_read(self, folder: Path) -> bool:
        """Return whether the names of the files in a folder are those of this format."""

    def load(self, folder: ForeignFolder, workspace: Path, direction: str) -> TrainedModel:
        """Read a model, in evaluation mode and without gradients.

        Args:
            folder: the files of the other program.
            workspace: an empty folder for the tokenizers, which lasts longer than the model.
            direction: languages such as `en-de`; empty if the folder names them.

        Raises:
            UserError: a file is missing or leads out of the folder, or the model cannot be
                represented. The message names the file or its key, and the value.
            Exception: of any kind if a file is damaged; see `ForeignFolder.errors_named`.
        """

    def open(self, model: TrainedModel, folder: ForeignFolder) -> Sequence[Runtime]:
        """Open the original of a loaded model with the other program.

        Raises:
            ImportError: the package that runs the original model is not installed.
            Exception: of any kind if the other program cannot read the original model.
        """


def imported_model(
    languages: Sequence[str],
    tokenizers: Sequence[Tokenizer],
    network: EncoderDecoder,
    max_source_length: int,
    decoding: DecodingConfig,
) -> TrainedModel:
    """Put a model together; if the vocabulary is joint, both tokenizers must be one object."""
    source, target = tokenizers
    config = TrainedModelConfig(
        source_language=languages[0],
        target_language=languages[1],
        joint_vocabulary=source is target,
        max_source_length=max_source_length,
        model=network.config,
        decoding=decoding,
    )
    return TrainedModel(config, network, source, target)
