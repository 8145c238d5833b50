"""Forward and backward passes of micro-batches: as they come, compiled, or captured.

Packed micro-batches have one shape. Their layers are compiled for it, and on a single GPU the
passes are captured once as a CUDA graph, which starts all kernels of a micro-batch at once.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.base.errors import first_line, is_out_of_memory
from nmt.config import Compilation, Config, Layout, Precision
from nmt.data.batch import Batch
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.training.distributed import Process
from nmt.training.loss import SummedLoss, chunk_gradients

logger = logging.getLogger(__name__)

_WARM_UPS = 3  # passes before a capture, as torch's documentation asks for


class Passes:
    """Adds the gradients of micro-batches to those of the parameters of `network`."""

    def __init__(self, config: Config, network: EncoderDecoder, process: Process) -> None:
        self._network = network
        self._device = process.device
        self._is_packed = config.batching.layout is Layout.packed
        self.precision = precision_on(process.device, config.training.precision)
        is_cuda, is_alone = process.device.type == "cuda", process.world_size == 1
        training = config.training
        self._has_attention_dropout = config.model.attention_dropout > 0
        self._is_compiled = training.compile is Compilation.always
        self._is_captured = self._is_compiled and is_cuda and is_alone and self._is_packed
        self._loss = SummedLoss(network, training.label_smoothing, training.balance_weight)
        if self._is_compiled:
            # A copy, because validation has other shapes, which run without compilation.
            self._loss.network = network.with_own_hooks().train()
            self._loss.network.compile_layers(is_dynamic=not self._is_packed)
            if self._is_packed:
                self._loss.of_chunk = torch.compile(chunk_gradients, dynamic=False)
        self._captured: CapturedPasses | None = None
        self._prepared_shape: torch.Size | None = None
        self.ddp: DistributedDataParallel | None = None
        if not is_alone:
            # torch 2.11 has the earlier name.
            has_new_name = "forward_sync_buffers" in signature(DistributedDataParallel).parameters
            name = "forward_sync_buffers" if has_new_name else "broadcast_buffers"
            options: dict[str, Any] = {name: False, "gradient_as_bucket_view": True}
            self.ddp = DistributedDataParallel(self._loss, **options)

    @contextlib.contextmanager
    def of_update(self) -> Iterator[None]:
        """Set the precision; weights are cast once for all micro-batches in this context."""
        uses_bfloat16 = self.precision is Precision.bfloat16
        # cuDNN's attention takes tens of milliseconds to prepare each new shape. Outside of this
        # context, batches have many shapes, and it is off (`nmt.model.attention`). It rounds the
        # rate of dropout to sixteenths.
        torch.backends.cuda.enable_cudnn_sdp(self._is_packed and not self._has_attention_dropout)
        try:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=uses_bfloat16):
                yield
        finally:
            torch.backends.cuda.enable_cudnn_sdp(False)

    def prepare(self, batch: Batch, num_micro_batches: int) -> None:
        """Compile, and capture packed micro-batches of this shape, unless that is done.

        If this is not possible, a warning is logged, and the passes run uncaptured or uncompiled.
        Gradients of earlier updates are not added to afterwards. Torch's random generator is used.
        """
        if not self._is_compiled:
            return
        # Buckets are compiled for any shape.
        shape = batch.source.shape if self._is_packed else torch.Size()
        if shape != self._prepared_shape:
            self._captured = None  # its memory is needed
            if not self._succeeds(partial(self._compile, batch), "uncompiled"):
                self._loss.network, self._loss.of_chunk = self._network, None
                self._is_compiled = self._is_captured = False
            self._prepared_shape = shape
        if self._is_captured:
            capture = partial(self._capture, batch, num_micro_batches)
            if not self._succeeds(capture, "uncaptured"):
                self._captured, self._is_captured = None, False

    def __call__(self, batch: Batch, weight: float, is_last: bool = True) -> Tensor:
        """Add the gradient of a micro-batch's loss, times `weight`; return the summed loss.

        Gradients are summed over ranks if this is the last micro-batch of the update.
        """
        if self._captured is not None:
            return self._captured(batch, weight)
        with self.ddp.no_sync() if self.ddp and not is_last else contextlib.nullcontext():
            loss = self._forward_backward(self.ddp or self._loss, batch.to(self._device), weight)
        return loss if weight else torch.zeros_like(loss)

    def _succeeds(self, function: Callable[[], None], otherwise: str) -> bool:
        try:
            function()
        except Exception as error:
            if is_out_of_memory(error):
                raise
            cause = error.__context__ or error  # an error in a capture causes another at its end
            reason = f"{type(cause).__name__}: {first_line(cause)}"
            logger.warning(f"training runs {otherwise}, after {reason}")
            self._drop_gradients()
            return False
        return True

    def _compile(self, batch: Batch) -> None:
        self._forward_backward(self._loss, batch.to(self._device), 1.0)
        self._drop_gradients()

    def _capture(self, batch: Batch, num_micro_batches: int) -> None:
        if self._captured is None:
            compute = partial(self._forward_backward, self._loss)
            self._captured = CapturedPasses(compute, self._network, batch.to(self._device))
        self._captured.begin_update(num_micro_batches)

    def _forward_backward(
        self, objective: nn.Module, batch: Batch, weight: float | Tensor
    ) -> Tensor:
        # Everything that must be freed after a failure is local to this function.
        loss: Tensor = objective(batch)
        # The backward pass uses the precision of the forward pass, without autocast.
        with torch.autocast(self._device.type, enabled=False):
            (loss * weight).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _drop_gradients(self) -> None:
        for parameter in self._network.parameters():
            parameter.grad = None


class CapturedPasses:
    """CUDA graphs of the passes of micro-batches with the shape of `batch`.

    The graph of the first micro-batch of an update writes the gradients; that of the others, which
    is captured when it is needed, adds to them. Torch's generator may be seeded before each call:
    the seed is read when a graph starts.
    """

    def __init__(
        self, compute: Callable[[Batch, Tensor], Tensor], network: nn.Module, batch: Batch
    ) -> None:
        self._compute = compute
        self._batch = batch.mapped(torch.clone)
        self._weight = torch.ones((), device=batch.source.device)
        parameters = list(network.parameters())
        torch.clear_autocast_cache()  # weights are cast in the graph
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                compute(self._batch, self._weight)
                torch.clear_autocast_cache()
        torch.cuda.current_stream().wait_stream(self._stream)
        for parameter in parameters:
            parameter.grad = None
        self._graphs: list[tuple[torch.cuda.CUDAGraph, Tensor]] = []
        self._number = 0  # of the next micro-batch of the update
        self._capture()
        self._gradients = [(p, p.grad) for p in parameters if p.grad is not None]

    def begin_update(self, num_micro_batches: int) -> None:
        """Set the gradients of all parameters to the tensors of the graphs."""
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._number = 0
        if num_micro_batches > len(self._graphs) == 1:
            self._capture()

    def __call__(self, batch: Batch, weight: float) -> Tensor:
        """Add the gradient of a micro-batch's loss, times `weight`; return the summed loss."""
        for own, given in zip(self._batch.tensors, batch.tensors, strict=True):
            own.copy_(given, non_blocking=True)
        self._weight.fill_(weight)
        graph, loss = self._graphs[min(self._number, 1)]
        self._number += 1
        graph.replay()
        return loss.clone()

    def _capture(self) -> None:
        """Capture the passes; without gradients before, they write them instead of adding."""
        graph = torch.cuda.CUDAGraph()
        pool = self._graphs[0][0].pool() if self._graphs else None
        # The first context restores the stream after an error, which torch's capture does not.
        # Another thread may prepare the next update.
        with (
            torch.cuda.stream(self._stream),
            torch.cuda.graph(graph, pool, self._stream, "thread_local"),
        ):
            loss = self._compute(self._batch, self._weight)
        torch.clear_autocast_cache()
        self._graphs.append((graph, loss))


def precision_on(device: torch.device, requested: Precision) -> Precision:
    """Resolve `auto`: bfloat16 on GPUs that support it, else float32."""
    if requested is not Precision.auto:
        return requested
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return Precision.bfloat16 if has_bfloat16 else Precision.float32
