"""The interface of import formats, and a function that they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nmt.config import DecodingConfig
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig


class Importer(Protocol):
    """An import format: reads a model of another program from a folder of unknown origin."""

    def can_read(self, folder: Path) -> bool:
        """Return whether the names of the files in a folder are those of this format."""

    def load(self, folder: Path, workspace: Path, direction: str) -> TrainedModel:
        """Read a model, in evaluation mode and without gradients.

        Args:
            folder: the files of the other program.
            workspace: an empty folder for the tokenizers, which lasts longer than the model.
            direction: languages such as `en-de`; empty if the folder names them.

        Raises:
            UserError: a file is missing, damaged or leads out of the folder, or the model cannot
                be represented. The message names the file or its key, and the value.
        """

    def compare(self, model: TrainedModel, folder: Path, texts: Sequence[str]) -> str:
        """Compare a loaded model with the original one, run by the other program.

        Returns:
            What was compared, and the differences, as Markdown for the README.

        Raises:
            ImportError: the package that runs the original model is not installed.
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
