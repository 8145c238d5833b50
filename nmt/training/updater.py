"""One optimizer step."""

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from nmt.config import Config, Precision
from nmt.data.batch import Batch, SpecialIds, collate
from nmt.data.loader import UpdateWork
from nmt.errors import UserError
from nmt.model.transformer import Transformer
from nmt.training.distributed import Process
from nmt.training.guard import GradientGuard
from nmt.training.loss import SummedLoss
from nmt.training.schedule import learning_rate


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


class Updater:
    """Makes gradients and steps along them.

    Args:
        config: the experiment.
        transformer: what is trained.
        optimizer: of its parameters.
        guard: which gradients are not followed.
        process: this process among those that train together.
        special_ids: of the source and of the target.
    """

    def __init__(
        self,
        config: Config,
        transformer: Transformer,
        optimizer: torch.optim.Optimizer,
        guard: GradientGuard,
        process: Process,
        special_ids: tuple[SpecialIds, SpecialIds],
    ) -> None:
        self._config = config
        self._transformer = transformer
        self._optimizer = optimizer
        self._guard = guard
        self._process = process
        self._special_ids = special_ids
        objective = SummedLoss(transformer, config.training.label_smoothing)
        self._objective: nn.Module = objective
        if process.world_size > 1:
            # The only buffers are tables of positions. Sharing them would be a collective in the
            # first micro-batch, which a process with fewer micro-batches does not take part in.
            # torch 2.13 has renamed the switch.
            parameters = inspect.signature(DistributedDataParallel).parameters
            is_new = "forward_sync_buffers" in parameters
            switch: dict[str, Any] = {
                "forward_sync_buffers" if is_new else "broadcast_buffers": False
            }
            self._objective = DistributedDataParallel(objective, **switch)
        self.precision = _precision(config.training.precision, process.device)

    def gradient(self, work: UpdateWork, before_each: Callable[[], None]) -> Gradient:
        """Forward and backward of an update's micro-batches; the weights stay as they are.

        Args:
            work: this process's share.
            before_each: called as often on every process, before each micro-batch or in its stead
                where others have one more.

        Raises:
            UserError: memory is out.
        """
        self._optimizer.zero_grad(set_to_none=True)
        # The loss is a sum, divided once by the tokens of the whole update. Data-parallel training
        # averages gradients over processes, so the sum over them needs the factor world_size.
        scale = self._process.world_size / work.num_target_tokens
        losses = []
        rounds = max(1, math.ceil(work.num_micro_batches / self._process.world_size))
        batches = self._batches(work)
        for place in range(rounds):
            before_each()
            # Who has fewer begins later: gradients are shared in the last round, by all at once.
            if rounds - place > max(1, len(work.micro_batches)):
                continue
            batch = next(batches)
            with (
                _out_of_memory_told(batch),
                self._shared(place == rounds - 1),
                self._autocast(),
            ):
                loss = self._objective(batch.to(self._process.device))
                (loss * (scale if work.micro_batches else 0.0)).backward()
            if work.micro_batches:
                losses.append(loss.detach())
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
        if isinstance(self._objective, DistributedDataParallel):
            # Once, after the first update, torch orders its buckets anew, which is a collective. It
            # would be in the next forward, where who has fewer micro-batches comes later.
            self._objective.reducer._rebuild_buckets()
        return is_refused

    def _batches(self, work: UpdateWork) -> Iterator[Batch]:
        """This process's micro-batches, each after seeding the chance that falls in it.

        A process without work gets one empty-handed batch, whose loss is multiplied by zero: it has
        to take part when gradients are shared.
        """
        seed = self._config.training.seed
        for micro_batch in work.micro_batches:
            _seed_generators(seed, work.epoch, work.update_in_epoch, micro_batch.number)
            yield micro_batch.batch
        if not work.micro_batches:
            yield collate([([], [])], *self._special_ids)

    @contextlib.contextmanager
    def _shared(self, is_last: bool) -> Iterator[None]:
        if isinstance(self._objective, DistributedDataParallel) and not is_last:
            with self._objective.no_sync():
                yield
        else:
            yield

    def _autocast(self) -> contextlib.AbstractContextManager[object]:
        return torch.autocast(
            self._process.device.type, torch.bfloat16, enabled=self.precision is Precision.bfloat16
        )


@contextlib.contextmanager
def _out_of_memory_told(batch: Batch) -> Iterator[None]:
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        is_memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not is_memory and "can't allocate memory" not in str(error):
            raise
        rows, source_length = batch.source.shape
        raise UserError(
            f"out of memory in a micro-batch of {rows} pairs, {source_length} source and"
            f" {batch.target_input.size(1)} target tokens long:"
            f" {str(error).splitlines()[0]}; lower batching.target_tokens_per_micro_batch (and say"
            " run.accept_changes=batching.target_tokens_per_micro_batch to go on from the last"
            " checkpoint)"
        ) from error


def _seed_generators(*place: int) -> None:
    """Seed torch by a place in training: neither a restart nor more processes change chance."""
    torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))


def _precision(asked: Precision, device: torch.device) -> Precision:
    if asked is not Precision.auto:
        return asked
    has_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return Precision.bfloat16 if has_bfloat16 else Precision.float32
