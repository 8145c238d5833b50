"""Weights of other programs: their order, and checks of files of unknown origin.

In our vectors of positions, the sines have the even indices. In those of Marian and Hugging Face,
the sines are the first half. Positions are added to embeddings, so every axis of the model width is
reordered in the same way.
"""

import difflib
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.base.errors import UserError
from nmt.tokenizer import Tokenizer

NEVER = -1e4
"""Bias of an output that never occurs: its probability is zero in float32."""

EMBEDDINGS = ("source_embedding.weight", "target_embedding.weight", "output_weight")
"""Our names of the matrices with a row for each piece."""

_WIDTH_LAST = (*EMBEDDINGS, "query.weight", "key.weight", "value.weight", "inner.weight")
_WITHOUT_WIDTH = ("output_bias", "query.bias", "key.bias", "value.bias", "inner.bias")


def half_split(width: int) -> Tensor:
    """Return the indices of our vectors in the order of other programs: even, then odd ones."""
    return torch.arange(width).view(-1, 2).T.flatten()


def reorder(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """Reorder the axis of the model width, if a weight has one.

    Args:
        name: our name of the weight.
        weight: the weight.
        order: `half_split(width)` for an export, `half_split(width).argsort()` for an import.
    """
    if name.endswith(_WITHOUT_WIDTH):
        return weight
    return weight[:, order] if name.endswith(_WIDTH_LAST) else weight[order]


def add_pieces(weights: dict[str, Tensor], tokenizers: Sequence[Tokenizer]) -> None:
    """Add rows for the pieces that the tokenizers have and the foreign vocabularies lack.

    New rows of embeddings are zero, and the bias of new pieces excludes them from translations. The
    `output_bias`, which `weights` must have, is removed if it is zero.
    """
    source_size, target_size = (tokenizer.vocabulary_size for tokenizer in tokenizers)
    for name in weights.keys() & set(EMBEDDINGS):
        size = source_size if name == "source_embedding.weight" else target_size
        weights[name] = F.pad(weights[name], (0, 0, 0, size - len(weights[name])))
    bias = weights.pop("output_bias")
    bias = F.pad(bias, (0, target_size - len(bias)), value=NEVER)
    if bias.any():
        weights["output_bias"] = bias


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

    def num_rows(self, *names: str) -> int:
        """Return the number of rows of the first tensor of these names that exists."""
        found = [self._tensors[name] for name in names if name in self._tensors]
        if not (found and found[0].dim()):
            raise UserError(f"{self.path}: lacks the tensor {names[-1]}, a matrix")
        return len(found[0])

    def take(self, name: str, *shape: int) -> Tensor:
        """Return a tensor of this shape in float32.

        Raises:
            UserError: the tensor is missing, has another shape, or does not hold finite
                floating-point numbers.
        """
        if name not in self._tensors:
            near = difflib.get_close_matches(name, sorted(self._unused), 1, 0.8)
            hint = f"; it has {near[0]} instead" if near else ""
            raise UserError(f"{self.path}: lacks the tensor {name}{hint}")
        tensor = self._tensors[name]
        if tensor.shape != shape:
            raise UserError(
                f"{self.path}: {name} has shape {tuple(tensor.shape)}, but the configuration and"
                f" the vocabulary require {shape}"
            )
        self._unused.discard(name)
        if not tensor.is_floating_point():
            raise UserError(f"{self.path}: {name} holds {tensor.dtype}, not floating-point numbers")
        tensor = tensor.to(torch.float32).contiguous()
        if not torch.stack(tensor.aminmax()).isfinite().all():
            raise UserError(f"{self.path}: {name} holds NaN or infinity")
        return tensor

    def check_all_taken(self, ignored: Collection[str] = ()) -> None:
        """Raise UserError if a tensor was neither taken nor `ignored`, and so would be lost."""
        for name in sorted(self._unused.difference(ignored)):
            raise UserError(f"{self.path}: holds the tensor {name}, which this program cannot use")
