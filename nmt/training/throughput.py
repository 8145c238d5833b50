"""How fast training is, and how much of it is padding."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.loader import UpdateWork
from nmt.training.distributed import Process


@dataclass(frozen=True)
class Figures:
    """Means since the last summary, over all processes.

    Attributes:
        mean_loss: nats a target token, label smoothing included.
        target_tokens_per_second: EOS counted, padding not.
        share_not_padding: of all places of source and target that were computed, 0 to 1.
        seconds_per_update: wall-clock time.
    """

    mean_loss: float
    target_tokens_per_second: float
    share_not_padding: float
    seconds_per_update: float


class Throughput:
    """Adds up updates; the loss stays on its device until a summary, which alone waits for it."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget everything; the clock starts now."""
        self._started = time.monotonic()
        self._loss: Tensor | None = None
        self._updates = self._target_tokens = self._real = self._computed = 0

    def add(self, work: UpdateWork, loss: Tensor) -> None:
        """Count one update and this process's summed loss."""
        self._loss = loss if self._loss is None else self._loss + loss
        self._updates += 1
        self._target_tokens += work.num_target_tokens
        for micro_batch in work.micro_batches:
            batch = micro_batch.batch
            self._real += int(batch.source_mask.sum()) + batch.num_target_tokens
            self._computed += batch.source.numel() + batch.target_input.numel()

    def summary(self, process: Process) -> Figures:
        """The means; starts over."""
        assert self._loss is not None
        counted = torch.tensor([self._real, self._computed], device=process.device)
        real, computed = process.sum(counted).tolist()
        loss = float(process.sum(self._loss))
        seconds = max(time.monotonic() - self._started, 1e-9)
        figures = Figures(
            loss / self._target_tokens,
            self._target_tokens / seconds,
            real / max(1, computed),
            seconds / self._updates,
        )
        self.restart()
        return figures
