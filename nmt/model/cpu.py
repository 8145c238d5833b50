"""Faster versions of the model's operators for float32 on CPUs.

This is the only file with CPU-specific operators, and `use_cpu_operators` decides where they apply.
For all other tensors, `Linear`, `Dropout` and `ReLUDropout` use torch's operators.

- Matrix products use oneDNN where it is faster than torch's own library, which is MKL on x86.
- Dropout draws 16 random bits per element instead of one Bernoulli trial.
- Rotary positions multiply complex numbers.
- The loss and its gradients are computed together and in place, for a chunk of tokens at a time.
- Decoding multiplies by weights that are packed once, in the layout of MKL or oneDNN, if they are
  large.
"""

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.base.system import is_address_space_limited
from nmt.model.cpu_library import library, library_of_packed_weights


def use_cpu_operators(tensor: Tensor) -> bool:
    """Return whether the operators of this file apply: CPU, float32, no autocast, not compiled."""
    return (
        not torch.compiler.is_compiling()
        and tensor.device.type == "cpu"
        and tensor.dtype is torch.float32
        and not torch.is_autocast_enabled("cpu")
    )


def use_onednn(inputs: Tensor) -> bool:
    """Return whether oneDNN computes products of these inputs and a weight."""
    # Compiled models return here. `library` may read a file, which would split the compiled graph.
    if not use_cpu_operators(inputs) or inputs.numel() == 0:
        return False
    return library() == "onednn"


def onednn_product(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute inputs · weight^T + bias without gradients: (N, in), (out, in), (out,) → (N, out).

    Both matrices may be transposed views. oneDNN copies a transposed `inputs`.
    """
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")


def with_spare_rows(matrix: Tensor) -> Tensor:
    """Add rows of zeros, so that few different numbers of rows occur: (N, D) → (N', D).

    oneDNN compiles a program for each new shape, which takes milliseconds, and keeps the last
    thousand programs. Up to 16 rows, N' is N. Above 16, N' is a multiple of 16; above 256, N' is on
    average 2 % larger than N.
    """
    number = len(matrix)
    spare = -number % max(16, 1 << (number.bit_length() - 5)) if number > 16 else 0
    if not spare:
        return matrix
    return torch.cat((matrix, matrix.new_zeros(spare, matrix.size(1))))


def batched_product(left: Tensor, right: Tensor) -> Tensor:
    """Compute N products left · right^T without gradients: (N, a, c), (N, b, c) → (N, a, b)."""
    if not use_onednn(left):
        return left @ right.mT
    return torch.stack([onednn_product(*pair) for pair in zip(left, right, strict=True)])


class Linear(nn.Linear):
    """`torch.nn.Linear`: y = x W^T + b."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer: (…, in) → (…, out)."""
        if not use_onednn(inputs):
            return super().forward(inputs)
        return _Linear.apply(inputs, self.weight, self.bias)  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # Save `inputs`, not `rows`: other operations save `inputs` too, so no memory is added.
        context.save_for_backward(inputs, weight)
        rows = with_spare_rows(inputs.reshape(-1, inputs.size(-1)))  # (N', in)
        shape = (*inputs.shape[:-1], weight.size(0))
        return onednn_product(rows, weight, bias)[: math.prod(shape[:-1])].view(shape)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = context.saved_tensors
        for_inputs, for_weight, for_bias = context.needs_input_grad
        rows = inputs.reshape(-1, inputs.size(-1))  # (N, in)
        gradient = with_spare_rows(gradients[0].reshape(len(rows), weight.size(0)))  # (N', out)
        return (
            onednn_product(gradient, weight.t())[: len(rows)].view_as(inputs)
            if for_inputs
            else None,
            onednn_product(gradient.t(), with_spare_rows(rows).t()) if for_weight else None,
            gradient.sum(dim=0) if for_bias else None,
        )


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`; on CPUs, mask and scale use the rate rounded to 1/65,536."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `inputs` with random elements dropped."""
        if not self.training or not self.p:
            return inputs
        if not use_cpu_operators(inputs):
            return super().forward(inputs)
        return _Dropout.apply(inputs, self.p)  # type: ignore[no-untyped-call]


class ReLUDropout(nn.Dropout):
    """Dropout of max(0, x); on CPUs, no mask is stored for the backward pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return max(0, x) with random elements dropped."""
        if not self.training or not self.p or not use_cpu_operators(inputs):
            return super().forward(F.relu(inputs))
        return _ReLUDropout.apply(inputs, self.p)  # type: ignore[no-untyped-call]


# Dropout draws one of these levels for each element, and drops the elements with the lowest ones.
_LEVELS = 1 << 16
_threshold_backward = torch.ops.aten.threshold_backward


def _num_dropped(p: float) -> int:
    """Return the number of levels dropped with probability p; at least one level is kept."""
    return min(round(p * _LEVELS), _LEVELS - 1)


def _random_levels(like: Tensor) -> Tensor:
    """Draw an int16 level for each element of `like`, from a seed that torch's generator draws."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-like.numel() // 4))
    return torch.from_numpy(words.view(np.int16)[: like.numel()]).view(like.shape)


def _keep(values: Tensor, levels: Tensor, p: float) -> Tensor:
    """Scale the values whose level is kept, and set the others to zero."""
    # `threshold_backward` keeps the values whose level is above the threshold, in one pass. The
    # result overwrites the converted levels: new memory pages take longer than the arithmetic.
    kept = levels.to(values.dtype)
    threshold = _num_dropped(p) - _LEVELS // 2 - 1
    _threshold_backward.grad_input(values, kept, threshold, grad_input=kept)
    return kept.mul_(_LEVELS / (_LEVELS - _num_dropped(p)))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, p: float) -> Tensor:
        levels = _random_levels(inputs)
        context.save_for_backward(levels)
        context.p = p
        return _keep(inputs, levels, p)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (levels,) = context.saved_tensors
        return _keep(gradients[0], levels, context.p), None


class _ReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, p: float) -> Tensor:
        outputs = _keep(inputs, _random_levels(inputs), p).relu_()
        context.save_for_backward(outputs)
        context.scale = _LEVELS / (_LEVELS - _num_dropped(p))
        return outputs

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # The gradient is zero where the output is, so the outputs serve as the mask.
        (outputs,) = context.saved_tensors
        return _threshold_backward(gradients[0], outputs, 0.0).mul_(context.scale), None


def rotate(heads: Tensor, rotations: Tensor) -> Tensor:
    """Rotate pairs of neighbouring elements of (…, L, E) by cosines and sines (…, L, E / 2, 2)."""
    if any(offset % 2 for offset in (*heads.stride()[:-1], heads.storage_offset())):
        heads = heads.contiguous()  # complex numbers start at even offsets
    pairs = torch.view_as_complex(heads.view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.view_as_complex(rotations)).flatten(-2)


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, tokens: Tensor, eps: float, is_weight_trained: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Compute the loss of `nmt.training.loss.smoothed_cross_entropy` and its gradients.

    A token y has the row h of `hidden` and, with W = `weight`, the logits z = W h. Its loss is the
    loss without smoothing plus eps · (z_y - mean_v z_v), where v runs over the vocabulary. The mean
    is the product of h and the mean row of W.

    Returns:
        The sum of the losses, its gradient for `hidden`, and its gradient for `weight`, which is
        None unless the weight is trained.
    """
    mean_row = weight.mean(dim=0)  # (D,)
    grad_hidden = torch.empty_like(hidden)
    grad_weight = torch.zeros_like(weight) if is_weight_trained else None
    loss = -eps * (hidden @ mean_row).sum()
    by_onednn = use_onednn(hidden)
    # A chunk has at most 512 tokens, so few logits. Chunks have about the same size, because oneDNN
    # compiles a program for each size.
    size = max(1, math.ceil(len(tokens) / max(1, math.ceil(len(tokens) / 512))))
    buffer = hidden.new_empty(0 if by_onednn else size, len(weight))
    for first in range(0, len(tokens), size):
        chunk = slice(first, first + size)
        rows, correct = hidden[chunk], tokens[chunk, None]  # (n, D), (n, 1)
        n = len(rows)
        if by_onednn:
            rows = with_spare_rows(rows)  # (n', D)
            logits = onednn_product(rows, weight)  # (n', V)
        else:
            logits = torch.mm(rows, weight.t(), out=buffer[:n])
        correct_logits = logits.gather(1, correct)
        largest = logits.amax(dim=1, keepdim=True)  # (n', 1)
        # `powers` is `total` times the softmax. The division by `total` is in smaller matrices.
        powers = logits.sub_(largest).exp_()
        total = powers.sum(dim=1, keepdim=True)
        loss += ((largest + total.log())[:n] - (1.0 - eps) * correct_logits).sum()
        powers.scatter_add_(1, correct, (eps - 1.0) * total[:n])
        powers[n:] = 0.0
        if by_onednn:
            grad_hidden[chunk] = onednn_product(powers, weight.t())[:n] / total[:n]
        else:
            grad_hidden[chunk] = powers @ weight / total
        if grad_weight is not None and by_onednn:
            grad_weight += onednn_product(powers.t(), (rows / total).t())
        elif grad_weight is not None:
            grad_weight.addmm_(powers.t(), rows / total)
    grad_hidden -= eps * mean_row
    if grad_weight is not None:
        grad_weight -= eps / len(weight) * hidden.sum(dim=0)
    return loss, grad_hidden, grad_weight


# A weight of at most this number of elements is not packed: a call of oneDNN takes about ten
# microseconds more than one of torch's own library.
MOST_UNPACKED = 1 << 16


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


class PackedLinear(nn.Module):
    """A linear layer for decoding, whose weight (D', D) is packed in the layout of oneDNN or MKL.

    A small weight is not packed. `activation` names the function that is applied to the output:
    none, relu, gelu or silu.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str = "none") -> None:
        super().__init__()
        self.activation = getattr(F, activation) if activation != "none" else _unchanged
        # For each matrix, MKL reserves 2.5 times its size plus 7 MB of address space.
        is_limited = is_address_space_limited()
        has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        by_mkl = library_of_packed_weights() == "torch" and has_mkl and not is_limited
        self.library = "mkl" if by_mkl else "onednn"
        weight = weight.detach().contiguous()
        bias = None if bias is None else bias.detach()
        self._operands: tuple[Any, ...]
        if weight.numel() <= MOST_UNPACKED:
            self.library, self._operands = "torch", (weight, bias)
        elif by_mkl:  # inputs may have another number of rows than the 1024 given here
            packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, 1024)
            self._operands = (packed, weight, bias)
        else:
            packed = torch.ops.mkldnn._reorder_linear_weight(weight)
            name = "swish" if activation == "silu" else activation
            self._operands = (packed, bias, name, [], "none")

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the layer and the activation: (…, D) → (…, D')."""
        if self.library == "torch":
            return self.activation(F.linear(inputs, *self._operands))
        rows = inputs.flatten(0, -2)
        if self.library == "mkl":
            outputs: Tensor = torch.ops.mkl._mkl_linear(rows, *self._operands, len(rows))
            outputs = self.activation(outputs)
        else:  # oneDNN also applies the activation
            filled = with_spare_rows(rows)
            outputs = torch.ops.mkldnn._linear_pointwise(filled, *self._operands)[: len(rows)]
        return outputs.view(*inputs.shape[:-1], -1)
