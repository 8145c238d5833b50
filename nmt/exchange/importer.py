"""The interface of import formats, and checks of foreign weights."""

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel


class Importer(Protocol):
    """A format: reads a model of another program, whose folder may be untrusted."""

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


class ForeignWeights:
    """Tensors of a file of unknown origin, each checked when it is taken.

    Args:
        path: the file, for messages.
        tensors: by name. Tensors of a torch file may be views that are larger than the file, so
            they are copied only after their shape has been checked.
    """

    def __init__(self, path: Path, tensors: dict[str, Tensor]) -> None:
        self.path = path
        self._tensors = tensors
        self._unused = set(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a tensor in float32.

        Raises:
            UserError: it is missing, has another shape, or does not hold finite floating-point
                numbers.
        """
        if name not in self._tensors:
            near = difflib.get_close_matches(name, sorted(self._unused), 1, 0.8)
            hint = f"; it has {near[0]} instead" if near else ""
            raise UserError(f"{self.path}: lacks the tensor {name}{hint}")
        tensor = self._tensors[name]
        if tensor.shape != shape:
            raise UserError(
                f"{self.path}: {name} has shape {tuple(tensor.shape)}, the configuration and the"
                f" vocabulary require {shape}"
            )
        self._unused.discard(name)
        if not tensor.is_floating_point():
            raise UserError(f"{self.path}: {name} holds {tensor.dtype}, not floating-point numbers")
        tensor = tensor.to(torch.float32).contiguous()
        if not torch.stack(tensor.aminmax()).isfinite().all():
            raise UserError(f"{self.path}: {name} holds NaN or infinity")
        return tensor

    def check_all_taken(self, ignored: Collection[str] = ()) -> None:
        """Raise UserError if a tensor was not taken, and so would be lost."""
        for name in sorted(self._unused.difference(ignored)):
            raise UserError(f"{self.path}: holds the tensor {name}, which this program cannot use")
