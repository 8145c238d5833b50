"""The export formats by name, and the interface that each of them implements."""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from nmt.base.errors import UserError
from nmt.base.system import require_package
from nmt.config import ModelConfig
from nmt.model.transformer import Transformer
from nmt.pages.html_page import render_text
from nmt.trained_model import TrainedModel

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

    tolerance: float
    """Largest accepted difference of a token's log-probability from that of torch, in nats. Where
    torch's log-probability is below -1, its absolute value times this number is accepted."""

    def token_log_probs(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> list[list[float]]:
        """Compute the log-probability in nats of each target token and of EOS.

        Args:
            sources: ids of each source, without EOS.
            targets: ids of each target, without BOS and EOS.
        """

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate by greedy search, with the exported tokenizer.

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

    def open(self, model: TrainedModel, folder: Path) -> Runtime:
        """Open an exported model.

        Raises:
            ImportError: the package that runs this format is not installed.
        """

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export, in Markdown."""


@runtime_checkable
class QuantizedExporter(Exporter, Protocol):
    """A format that also writes weights in 8 bits."""

    def open_quantized(self, model: TrainedModel, folder: Path) -> Runtime:
        """Open the exported model with its 8-bit weights; see `Exporter.open`."""


Format = StrEnum("Format", "huggingface onnx ctranslate2 argos marian")


def open_exporter(name: Format, compute_type: str) -> Exporter:
    """Return the exporter of a format.

    Args:
        name: the format.
        compute_type: type of the stored weights in ctranslate2 and argos; empty means float32.

    Raises:
        UserError: the format has no such `compute_type`, or a package that it needs is missing.
    """
    # Exporters are imported here, because some are slow to import or need optional packages.
    if name in (Format.ctranslate2, Format.argos):
        from nmt.exchange.argos import ArgosExporter  # noqa: PLC0415
        from nmt.exchange.ctranslate2 import CTranslate2Exporter  # noqa: PLC0415

        return (CTranslate2Exporter if name is Format.ctranslate2 else ArgosExporter)(compute_type)
    if compute_type:
        raise UserError(
            f"compute_type={compute_type} has an effect with format=ctranslate2 and format=argos"
            " only; remove it"
        )
    if name is Format.onnx:
        for package in ("onnx", "onnxruntime"):
            require_package("format=onnx", package, "exchange")
        from nmt.exchange.onnx import OnnxExporter  # noqa: PLC0415

        return OnnxExporter()
    if name is Format.marian:
        from nmt.exchange.marian import MarianExporter  # noqa: PLC0415

        return MarianExporter()
    from nmt.exchange.huggingface import HuggingFaceExporter  # noqa: PLC0415

    return HuggingFaceExporter()
