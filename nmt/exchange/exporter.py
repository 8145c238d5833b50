"""What every export format implements."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from nmt.base.errors import UserError
from nmt.model.transformer import Transformer
from nmt.trained_model import TrainedModel


def transformer_of(model: TrainedModel) -> Transformer:
    """Return the Transformer of a model.

    Raises:
        UserError: the model has another architecture or a variant that no format holds.
    """
    config = model.config.model
    if not isinstance(model.transformer, Transformer):
        raise UserError(
            f"model.architecture={config.architecture}: only Transformers can be exported;"
            " translate with engine=torch, or train with model.architecture=transformer"
        )
    for key, value, held in (
        ("num_experts", config.num_experts, 1),
        ("attention_window", config.attention_window, 0),
    ):
        if value != held:
            raise UserError(
                f"model.{key}={value}: no format can hold it; translate with engine=torch, or"
                f" train with model.{key}={held}"
            )
    return model.transformer


class Runtime(Protocol):
    """An exported model, run by the program that it was exported for."""

    tolerance: float
    """Largest difference of a token's log-probability from that of torch, in nats."""

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
    """A format: writes a model for another program, and opens it there."""

    def check(self, model: TrainedModel) -> None:
        """Raise UserError if the format cannot hold the model.

        The message names the key of the configuration, and a format or value that would fit.
        """

    def export(self, model: TrainedModel, folder: Path) -> None:
        """Write the converted model and its tokenizers into an empty folder."""

    def open(self, model: TrainedModel, folder: Path) -> Runtime:
        """Open an exported model.

        Raises:
            ImportError: a package is missing that runs this format.
        """

    def usage(self, model: TrainedModel) -> str:
        """Return the section of the README that shows how to use the export, in Markdown."""


@runtime_checkable
class QuantizedExporter(Exporter, Protocol):
    """A format that also writes weights in fewer bits."""

    def open_quantized(self, model: TrainedModel, folder: Path) -> Runtime:
        """Open the export with these weights; see `open`."""
