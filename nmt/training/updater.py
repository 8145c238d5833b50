"""One optimizer step."""

import contextlib
import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from nmt.config import Config, Precision
from nmt.data.batch import Batch
from nmt.data.loader import UpdateWork
from nmt.errors import first_line
from nmt.model.transformer import Transformer
from nmt.training.distributed import Process
from nmt.training.guard import GradientGuard
from nmt.training.loss import SummedLoss
from nmt.training.schedule import learning_rate
from nmt.training.sharing import GradientSharing


@dataclass(frozen=True)
class Gradient:
    """What came of one update's micro-batches, still on the device.

    Attributes:
        losses: this process's micro-batches' losses, each summed over its target tokens.
        norm: of the gradient of all processes, before clipping.
    """

    losses: list[Tensor]
    norm: Tensor

    @property
    def loss(self) -> Tensor:
        """This process's loss, summed over its target tokens."""
        return torch.stack(self.losses).sum() if self.losses else torch.zeros_like(self.norm)


class OutOfMemory(Exception):  # noqa: N818 - it is met, and training goes on
    """Memory ran out in a micro-batch, on this process or another; all of them raise it.

    It carries no traceback of the first error, whose frames would keep the tensors alive.

    Attributes:
        rows: pairs in the micro-batch.
        reason: what torch said.
    """

    def __init__(self, rows: int, source_length: int, target_length: int, reason: str) -> None:
        super().__init__(rows, source_length, target_length, reason)
        self.rows = rows
        self.reason = reason
        self._lengths = source_length, target_length

    def __str__(self) -> str:
        source_length, target_length = self._lengths
        pairs = "1 pair" if self.rows == 1 else f"{self.rows} pairs"
        return (
            f"out of memory in a micro-batch of {pairs}, {source_length} source and"
            f" {target_length} target tokens long: {self.reason}"
        )


class Updater:
    """Makes gradients and steps along them.

    Args:
        config: the experiment.
        transformer: what is trained.
        optimizer: of its parameters.
        guard: which gradients are not followed.
        process: this process among those that train together.
    """

    def __init__(
        self,
        config: Config,
        transformer: Transformer,
        optimizer: torch.optim.Optimizer,
        guard: GradientGuard,
        process: Process,
    ) -> None:
        self._config = config
        self._transformer = transformer
        self._optimizer = optimizer
        self._guard = guard
        self._process = process
        self._objective = SummedLoss(
            transformer, config.training.label_smoothing, config.training.r_drop
        )
        if config.training.compile:
            transformer.compile_layers()
        self._sharing: GradientSharing | None = None
        if process.world_size > 1:
            self._sharing = GradientSharing(transformer.parameters_by_use(), process)
        self.precision = precision_on(process.device, config.training.precision)

    def gradient(self, work: UpdateWork, before_each: Callable[[], None]) -> Gradient:
        """Forward and backward of an update's micro-batches; the weights stay as they are.

        Args:
            work: this process's share.
            before_each: called as often on every process, before each micro-batch or in its stead
                where others have one more.

        Raises:
            OutOfMemory: memory ran out, on any process; no gradient is left. Made again from its
                beginning, the update is as if nothing had happened.
        """
        self._optimizer.zero_grad(set_to_none=True)
        losses: list[Tensor] = []
        failure: OutOfMemory | None = None
        batches = self._batches(work)
        with self._autocast():  # around them all: each weight is made narrow once
            for place in range(work.num_rounds):
                before_each()
                if place == work.num_rounds - 1 and self._sharing is not None:
                    self._sharing.open()
                # Who has fewer begins later: gradients are shared in the last round, by all at
                # once.
                if failure is None and work.num_rounds - place <= len(work.micro_batches):
                    batch = next(batches)
                    try:
                        losses.append(self._forward_backward(batch, work.num_target_tokens))
                    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                        failure = _out_of_memory(batch, error)
        if self._sharing is not None:
            self._sharing.finish()
        self._raise_if_any(failure)
        max_norm = self._config.optimizer.max_gradient_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self._transformer.parameters(), max_norm)
        return Gradient(losses, norm)

    def step(self, gradient: Gradient, update: int) -> Tensor:
        """Change the weights, unless the guard refuses the gradient; `update` counts from 1.

        Returns:
            Whether it did, a boolean scalar, still on the device.
        """
        training = self._config.training
        rate = learning_rate(update, self._config.schedule, training.max_updates)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # torch's fused optimizers look for this attribute, by which its gradient scaler makes them
        # leave a step out without waiting for the device.
        is_refused = self._guard.refuses(gradient.norm)
        self._optimizer.found_inf = is_refused.float()  # type: ignore[attr-defined]
        self._optimizer.step()
        return is_refused

    def _batches(self, work: UpdateWork) -> Iterator[Batch]:
        """This process's micro-batches, each after seeding the chance that falls in it."""
        seed = self._config.training.seed
        for micro_batch in work.micro_batches:
            _seed_generators(seed, work.epoch, work.update_in_epoch, micro_batch.number)
            yield micro_batch.batch

    def _forward_backward(self, batch: Batch, num_target_tokens: int) -> Tensor:
        """The summed loss of a micro-batch; its gradient is added to what is there.

        Everything that a failure must not keep alive is local to this function.
        """
        loss: Tensor = self._objective(batch.to(self._process.device))
        # A backward pass computes in the precision of its forward pass, without being told.
        with torch.autocast(self._process.device.type, enabled=False):
            # The loss is a sum, divided once by the tokens of the whole update; gradients are
            # summed over micro-batches and processes.
            (loss * (1 / num_target_tokens)).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _raise_if_any(self, failure: OutOfMemory | None) -> None:
        """Raise the first process's failure on all of them, with nothing left in memory."""
        if not self._process.any(failure is not None):
            return
        self._optimizer.zero_grad(set_to_none=True)
        gc.collect()
        if self._process.device.type == "cuda":
            torch.cuda.empty_cache()
        failures = [found for found in self._process.from_all(failure) if found is not None]
        raise min(failures, key=lambda found: found.rows)

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        return torch.autocast(
            self._process.device.type, torch.bfloat16, enabled=self.precision is Precision.bfloat16
        )


# What allocators say, each in words of its own; oneDNN only names what it could not make, and
# NVIDIA's libraries give a code.
_MEMORY_WORDS = (
    *("can't allocate memory", "Cannot allocate memory", "bad_alloc", "out of memory"),
    *("could not create a primitive", "could not create a memory", "ALLOC_FAILED"),
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory is out, on whichever device."""
    if isinstance(error, OutOfMemory | torch.OutOfMemoryError | MemoryError):
        return True
    return any(words in str(error) for words in _MEMORY_WORDS)


def _out_of_memory(batch: Batch, error: BaseException) -> OutOfMemory:
    """What to say of an error that means that memory is out; any other one is raised."""
    if not is_out_of_memory(error):
        raise error
    rows, source_length = batch.source.shape
    return OutOfMemory(rows, source_length, batch.target_input.size(1), first_line(error))


def _seed_generators(*place: int) -> None:
    """Seed torch by a place in training: neither a restart nor more processes change chance."""
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))


def precision_on(device: torch.device, asked: Precision) -> Precision:
    """What forward and backward are computed in: float32 or bfloat16."""
    if asked is not Precision.auto:
        return asked
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return Precision.bfloat16 if has_bfloat16 else Precision.float32
