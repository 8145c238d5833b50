"""Matrix products of linear layers, on CPUs by MKL where it uses all of one, else by oneDNN.

torch multiplies float32 matrices on x86 by MKL, which uses the 512-bit units of Intel's CPUs alone;
oneDNN, which comes with torch too, uses what it finds. On an AMD EPYC with AVX-512 that is twice as
fast, forward and backward; on an Intel Xeon, and on an AMD EPYC without AVX-512, it is the slower
one, which copies matrices that are turned and compiles for each shape. The sums are of float32 in
both.
"""

import logging
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nmt.processor import is_intel

logger = logging.getLogger(__name__)

_FEW_ROWS = 16


class Linear(nn.Linear):
    """y = x W^T + b."""

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        return linear(inputs, self.weight, self.bias)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`inputs` (…, in) times `weight` (out, in) transposed, plus `bias` (out,): (…, out)."""
    if not suits_onednn(inputs):
        return F.linear(inputs, weight, bias)
    outputs: Tensor = _Linear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
    return outputs


def product(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As `linear` of matrices, without gradients; either may be a transposed view."""
    if suits_onednn(inputs):
        return product_by_onednn(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


def product_in(room: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """As `product`; it takes no new memory where it can write into `room`, of its shape."""
    if suits_onednn(inputs):
        return product_by_onednn(inputs, weight)
    return torch.mm(inputs, weight.t(), out=room)


def add_product(total: Tensor, inputs: Tensor, weight: Tensor) -> None:
    """Add what `product` gives."""
    if suits_onednn(inputs):
        total += product_by_onednn(inputs, weight)
    else:
        total.addmm_(inputs, weight.t())


def product_by_onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As `product`, on any CPU; by torch where there is no memory for what oneDNN compiles."""
    try:
        outputs: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    except RuntimeError as error:
        if _NO_ROOM not in str(error):
            raise
        _do_without()
        return F.linear(inputs, weight, bias)
    return outputs


def with_spare_rows(matrix: Tensor) -> Tensor:
    """(N, D) → (N', D), zeros below: N' is one of few numbers, about 2 % above N.

    oneDNN compiles code for each new shape, in milliseconds, and keeps it for the last thousand;
    batches have all sizes, and the rows of a search are a different number at every step.
    """
    number = len(matrix)
    step = max(_FEW_ROWS, 1 << max(0, number.bit_length() - 5))
    spare = -number % step
    return matrix if number <= _FEW_ROWS else _filled_up(matrix, number + spare)


def _filled_up(matrix: Tensor, number: int) -> Tensor:
    """(N, D) → (number, D), zeros below."""
    if number == len(matrix):
        return matrix
    filled = matrix.new_empty(number, matrix.size(1))
    filled[: len(matrix)] = matrix
    filled[len(matrix) :] = 0.0
    return filled


def suits_onednn(inputs: Tensor) -> bool:
    """Whether products with this matrix go by oneDNN here and now."""
    # Compilers choose for themselves, and would cut a model in two where a file tells the CPU.
    is_compiling = torch.compiler.is_compiling()
    return not is_compiling and can_be_packed(inputs) and not mkl_is_faster()


def can_be_packed(inputs: Tensor) -> bool:
    """Whether oneDNN can compute with this matrix here and now, and hold it in its own layout."""
    return (
        inputs.device.type == "cpu"
        and inputs.dtype is torch.float32
        and inputs.numel() > 0
        and _is_there()
        and not torch.is_autocast_enabled("cpu")
    )


def mkl_is_faster() -> bool:
    """Whether this CPU multiplies faster by MKL than by oneDNN: if that leaves no unit idle."""
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return has_mkl and (is_intel() or torch.backends.cpu.get_cpu_capability() != "AVX512")


# oneDNN's words where there is no memory for the code that it compiles.
_NO_ROOM = "could not create a primitive"
_has_room = True


def _do_without() -> None:
    """Leave oneDNN: code takes memory that nothing else gives back, however small the batch."""
    global _has_room  # noqa: PLW0603 -- it is the process that is short of memory
    _has_room = False
    logger.warning(
        "no memory for what oneDNN compiles: matrix products go without it from here on, slower;"
        " this run is no longer bit-exact"
    )


def _is_there() -> bool:
    is_compiled_in: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return _has_room and is_compiled_in and bool(torch.backends.mkldnn.enabled)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # Not the filled-up rows: others keep the same inputs, and they are kept once.
        context.save_for_backward(inputs, weight)
        rows = with_spare_rows(inputs.reshape(-1, inputs.size(-1)))  # (N', in)
        outputs = product(rows, weight, bias)  # (N', out)
        shape = (*inputs.shape[:-1], weight.size(0))
        return outputs[: math.prod(shape[:-1])].view(shape)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = context.saved_tensors
        of_inputs, of_weight, of_bias = context.needs_input_grad
        rows = inputs.reshape(-1, inputs.size(-1))  # (N, in)
        given = with_spare_rows(gradients[0].reshape(len(rows), weight.size(0)))  # (N', out)
        return (
            product(given, weight.t())[: len(rows)].view_as(inputs) if of_inputs else None,
            product(given.t(), _filled_up(rows, len(given)).t()) if of_weight else None,
            given.sum(dim=0) if of_bias else None,
        )
