"""A model's weights as decoding wants them: packed for the CPU, or in another precision."""

import copy
import resource
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import DecodingPrecision
from nmt.errors import UserError
from nmt.model.attention import MultiHeadAttention
from nmt.model.layers import FeedForward
from nmt.model.linear import can_be_packed, mkl_is_faster, with_spare_rows
from nmt.model.transformer import Transformer

_DTYPES = {
    DecodingPrecision.bfloat16: torch.bfloat16,
    DecodingPrecision.float16: torch.float16,
}


# Of what number of rows MKL is told when it packs a matrix; any other may follow.
_ROWS_FORETOLD = 1024


class PackedLinear(nn.Module):
    """A linear layer in the layout of who multiplies faster here, oneDNN or MKL; float32.

    torch multiplies float32 matrices by MKL, which leaves the 512-bit units of some CPUs idle and
    brings the weight into its layout at each product. oneDNN uses what units there are.

    Args:
        weight: (D', D).
        bias: (D',), or None.
        activation: what follows: none, relu or gelu.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, activation: str = "none") -> None:
        super().__init__()
        self._activation = activation
        self._bias = None if bias is None else bias.detach()
        weight = weight.detach().contiguous()
        self._is_by_mkl = mkl_is_faster() and _reserving_is_free()
        if self._is_by_mkl:
            self._weight = weight
            self._packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, _ROWS_FORETOLD)
        else:
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """(…, D) → (…, D')."""
        rows = inputs.flatten(0, -2)
        outputs = self.of_rows(self.filled_up(rows))[: len(rows)]
        return outputs.view(*inputs.shape[:-1], -1)

    def filled_up(self, rows: Tensor) -> Tensor:
        """(N, D) → (N', D), as many rows as `of_rows` likes best."""
        return rows if self._is_by_mkl else with_spare_rows(rows)

    def of_rows(self, rows: Tensor) -> Tensor:
        """(N, D) → (N, D')."""
        if not self._is_by_mkl:
            outputs: Tensor = torch.ops.mkldnn._linear_pointwise(
                rows, self._packed, self._bias, self._activation, [], "none"
            )
            return outputs
        # The last argument is the number of rows it is packed for: with another it is not used.
        outputs = torch.ops.mkl._mkl_linear(rows, self._packed, self._weight, self._bias, len(rows))
        if self._activation == "relu":
            return outputs.relu_()
        return F.gelu(outputs) if self._activation == "gelu" else outputs


# "2": the system gives no more addresses than there is memory for.
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


def _reserving_is_free() -> bool:
    """Whether memory that is asked for and never touched costs nothing here."""
    # MKL asks for 2.5 times a matrix and 7 MB, and leaves most of that alone.
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    overcommits = _OVERCOMMIT.is_file() and _OVERCOMMIT.read_text(encoding="ascii").strip() != "2"
    return limit == resource.RLIM_INFINITY and overcommits


class _PackedFeedForward(nn.Module):
    """`FeedForward` without dropout."""

    def __init__(self, unpacked: FeedForward) -> None:
        super().__init__()
        activation = "relu" if unpacked.is_relu else "gelu"
        self._inner = PackedLinear(unpacked.inner.weight, unpacked.inner.bias, activation)
        self._outer = PackedLinear(unpacked.outer.weight, unpacked.outer.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        rows = hidden.flatten(0, -2)
        filled_up = self._inner.filled_up(rows)
        outer = self._outer.of_rows(self._inner.of_rows(filled_up))[: len(rows)]
        return outer.view_as(hidden)


class _PackedAttention(MultiHeadAttention):
    """Multi-head attention that projects what attends to itself by one matrix."""

    all_three: PackedLinear

    def project_itself(self, hidden: Tensor, first: int | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, L, D) → queries, keys and values; see `MultiHeadAttention`."""
        projected = self.all_three(hidden).split(self.widths, dim=-1)
        query, key, value = (self.split_heads(part) for part in projected)
        if self.rotation is not None:
            query, key = self.rotation(query, first), self.rotation(key, first)
        return query, key, value

    @classmethod
    def take_over(cls, attention: MultiHeadAttention) -> None:
        """Make one of these of an attention."""
        layers = (attention.query, attention.key, attention.value)
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        attention.__class__ = cls
        assert isinstance(attention, _PackedAttention)
        attention.all_three = PackedLinear(weight, bias)
        del attention.query, attention.key, attention.value


class _DecodingTransformer(Transformer):
    """A transformer whose output projection is a module that may be replaced."""

    projection: nn.Module

    def project(self, hidden: Tensor) -> Tensor:
        """Hidden (…, D) → logits (…, V)."""
        logits: Tensor = self.projection(hidden)
        return logits


class DecodingWeights:
    """The model that decoding steps, made anew in training and when the weights have changed.

    Args:
        model: the model, which stays as it is.
        precision: of decoding.
        compiles: whether layers are compiled; in training, when weights last for one validation,
            they never are.

    Raises:
        UserError: int8 is asked for on an accelerator.
    """

    def __init__(
        self, model: Transformer, precision: DecodingPrecision, compiles: bool = False
    ) -> None:
        device = model.output_weight.device
        if precision is DecodingPrecision.int8 and device.type != "cpu":
            raise UserError(
                f"decoding.precision=int8 is for a CPU, and the model is on {device}; take bfloat16"
            )
        self._model = model
        self._precision = precision
        self._compiles = compiles
        self._made: Transformer | None = None
        self._made_of: list[tuple[int, int, int]] = []

    def now(self) -> Transformer:
        """The model to decode with, in evaluation mode, with the weights as they are now."""
        # A fused optimizer changes weights and counts no version: in training nothing is kept.
        if self._model.training:
            self._made = None
            return self._make()
        made_of = [
            (id(weight), weight.data_ptr(), weight._version) for weight in self._model.parameters()
        ]
        if self._made is None or made_of != self._made_of:
            self._made, self._made_of = self._make(), made_of
            if self._compiles:
                _compile(self._made)
        return self._made

    def _make(self) -> Transformer:
        model = self._model
        # Parameters are shared: only what is replaced below takes memory of its own.
        shared = {id(weight): weight for weight in model.parameters()}
        made = copy.deepcopy(model, shared).eval()
        made.__class__ = _DecodingTransformer
        assert isinstance(made, _DecodingTransformer)
        vocabulary_size, width = model.output_weight.shape
        made.projection = nn.Linear(width, vocabulary_size, bias=False, device="meta")
        made.projection.weight = nn.Parameter(model.output_weight.detach(), requires_grad=False)
        if self._precision is DecodingPrecision.int8:
            return _in_8_bits(made)
        if self._precision in _DTYPES:
            return copy.deepcopy(made).to(_DTYPES[self._precision])
        if can_be_packed(model.output_weight):
            _pack(made)
        return made


# Kinds of calls that one function is compiled for: each layer is one. torch's own bound is 8.
_MOST_KINDS = 64


def _compile(model: Transformer) -> None:
    """Compile what runs at every step and what runs for every source, for any shape."""
    limit = torch._dynamo.config.recompile_limit
    torch._dynamo.config.recompile_limit = max(limit, _MOST_KINDS)
    for name, layers in {"forward": model.encoder, "step": model.decoder}.items():
        for layer in layers:
            setattr(layer, name, torch.compile(getattr(layer, name), dynamic=True))


def _pack(module: nn.Module) -> None:
    for name, child in module.named_children():
        if name == "self_attention" and isinstance(child, MultiHeadAttention):
            _PackedAttention.take_over(child)
        if isinstance(child, nn.Linear):
            setattr(module, name, PackedLinear(child.weight, child.bias))
        elif isinstance(child, FeedForward):
            setattr(module, name, _PackedFeedForward(child))
        else:
            _pack(child)


def _in_8_bits(model: Transformer) -> Transformer:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            # torch quantises modules of its own class alone; weights and bias are the same.
            module.__class__ = nn.Linear
    with warnings.catch_warnings():
        # It tells of a successor that is a package of its own.
        warnings.simplefilter("ignore")
        quantised: Transformer = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
            model, {nn.Linear}, dtype=torch.qint8
        )
    return quantised
