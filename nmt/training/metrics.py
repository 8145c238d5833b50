"""Metrics of training, and detection and logging of skipped updates.

A record is an entry of `metrics.jsonl`, written every `training.log_every` updates.
"""

import json
import logging
import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from nmt.base.files import append_text
from nmt.data.loader import Position, UpdateLoader, UpdateWork
from nmt.model.cost import Processed
from nmt.trained_model import TrainedModel
from nmt.training.distributed import Process

logger = logging.getLogger(__name__)

# The running mean covers about this many norms. Before there are that many, no norm is a spike.
_WINDOW = 100


@dataclass
class MetricSums:
    """Sums over the updates since the last record and over all ranks.

    Checkpoints store them, so that a resumed run writes the records of an uninterrupted one.
    """

    updates: int = 0  # including skipped ones
    loss: float = 0.0  # nats, summed over the target tokens of the updates that were not skipped
    loss_tokens: int = 0  # number of these target tokens
    target_tokens: int = 0  # of all updates; EOS counts, padding does not
    tokens: int = 0  # source and target tokens
    positions: int = 0  # source and target positions, including padding
    seconds: float = 0.0
    # A record does not reset the following.
    gradient_norm: float = 0.0  # of the last update that was not skipped
    skipped: int = 0
    skipped_in_a_row: int = 0
    mean_norm: float = 0.0  # this and `num_norms`: of the `GradientMonitor`
    num_norms: int = 0
    processed: Processed = field(default_factory=Processed)  # in the whole run

    def restarted(self) -> "MetricSums":
        """Return the sums to continue with after a record."""
        kept = "gradient_norm", "skipped", "skipped_in_a_row", "mean_norm", "num_norms", "processed"
        return MetricSums(**{name: getattr(self, name) for name in kept})

    def add(
        self, work: UpdateWork, loss: float, norm: float, is_skipped: bool, window: int
    ) -> None:
        """Add one update; `window` is `model.attention_window`."""
        processed = Processed.of(work.shapes, work.num_target_tokens, window)
        self.processed += processed
        self.positions += processed.source + processed.target
        self.tokens += work.num_source_tokens + work.num_target_tokens
        self.target_tokens += work.num_target_tokens
        self.updates += 1
        if is_skipped:
            self.skipped += 1
            self.skipped_in_a_row += 1
        else:
            self.loss += loss
            self.loss_tokens += work.num_target_tokens
            self.gradient_norm = norm
            self.skipped_in_a_row = 0


class GradientMonitor:
    """Decides by the gradient norm which updates to skip.

    A norm is a spike if it is above `max_spike` times the running mean, which starts with that of
    `sums`. If `max_spike` is 0, no norm is a spike. Everything stays on the device: the fused
    optimizers take the decision as a tensor. A loss that is not finite needs no check of its own,
    because its gradient is not finite either.
    """

    def __init__(self, max_spike: float, sums: MetricSums, device: torch.device) -> None:
        self._max_spike = max_spike
        self.mean_norm = torch.tensor(sums.mean_norm, dtype=torch.float32, device=device)
        self.num_norms = torch.tensor(sums.num_norms, dtype=torch.int64, device=device)

    def should_skip(self, norm: Tensor) -> Tensor:
        """Return, as a boolean scalar, whether to skip the update with this gradient norm.

        If it is not skipped, the norm enters the running mean: the plain mean of the first hundred
        norms, then an exponential mean, in which a new norm has a weight of 1/100.
        """
        is_skipped = ~torch.isfinite(norm)
        if self._max_spike:
            has_mean = self.num_norms >= _WINDOW
            is_skipped |= has_mean & (norm > self._max_spike * self.mean_norm)
        weight = 1.0 / (self.num_norms + 1).clamp(max=_WINDOW)
        moved = self.mean_norm + weight * (norm - self.mean_norm)
        self.mean_norm = torch.where(is_skipped, self.mean_norm, moved)
        self.num_norms = self.num_norms + (~is_skipped)
        return is_skipped


@dataclass(frozen=True)
class SkippedUpdate:
    """An update that was skipped, and the running mean of norms when the metrics were read."""

    update: int
    position: Position
    norm: float
    mean_norm: float


class RunningMetrics:
    """Accumulates metrics; tensors stay on their device until `read`, which synchronises."""

    def __init__(
        self, sums: MetricSums, monitor: GradientMonitor, process: Process, window: int
    ) -> None:
        self.sums = replace(sums)  # as of the last `read`
        self._window = window
        self._monitor = monitor
        self._process = process
        self._pending: list[tuple[int, UpdateWork, Tensor, Tensor, Tensor]] = []
        self.start_clock()

    def start_clock(self) -> None:
        """Exclude the time since the last `read`, such as that of a validation."""
        self._start = time.monotonic()

    def add(
        self, update: int, work: UpdateWork, loss: Tensor, norm: Tensor, is_skipped: Tensor
    ) -> None:
        """Add one update."""
        self._pending.append((update, replace(work, micro_batches={}), loss, norm, is_skipped))

    def read(self) -> tuple[MetricSums, list[SkippedUpdate]]:
        """Return the sums, and the updates skipped since the last call. All ranks must call it."""
        now = time.monotonic()
        self.sums.seconds += now - self._start
        skipped = []
        if self._pending:
            updates, works, *tensors = zip(*self._pending, strict=True)
            losses, norms, flags = map(torch.stack, tensors)
            losses = self._process.all_reduce(losses.double())
            self.sums.mean_norm = float(self._monitor.mean_norm)
            self.sums.num_norms = int(self._monitor.num_norms)
            numbers = losses.tolist(), norms.tolist(), flags.tolist()
            for update, work, loss, norm, is_skipped in zip(updates, works, *numbers, strict=True):
                self.sums.add(work, loss, norm, is_skipped, self._window)
                if is_skipped:
                    skipped.append(SkippedUpdate(update, work.position, norm, self.sums.mean_norm))
        self._pending, self._start = [], now
        return replace(self.sums), skipped


def record_skipped(
    skipped: SkippedUpdate, path: Path, loader: UpdateLoader, model: TrainedModel
) -> None:
    """Log a skipped update and append it, with its sentences, to a file."""
    norms = f"gradient norm {skipped.norm:.4g}, running mean {skipped.mean_norm:.4g}"
    logger.warning(f"skipped update {skipped.update:,}: {norms}")
    plan = loader.plan(skipped.position.epoch)
    pairs = loader.ids(plan.update(skipped.position.update_in_epoch))
    sources, targets = ([ids.tolist() for ids in side] for side in zip(*pairs, strict=True))
    sources = model.source_tokenizer.decode(sources)
    targets = model.target_tokenizer.decode(targets)
    record = {
        "update": skipped.update,
        "epoch": skipped.position.epoch + 1,
        "update_in_epoch": skipped.position.update_in_epoch + 1,
        "gradient_norm": skipped.norm if math.isfinite(skipped.norm) else str(skipped.norm),
        "mean_gradient_norm": skipped.mean_norm,
        "pairs": list(zip(sources, targets, strict=True)),
    }
    append_text(path, json.dumps(record, ensure_ascii=False) + "\n")
