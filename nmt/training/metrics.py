"""Metrics of the updates since the last record, and the monitor and records of skipped updates."""

import json
import logging
import math
import time
from dataclasses import astuple, dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.base.files import writing
from nmt.base.layout import SKIPPED_UPDATES_FILE
from nmt.config import Config
from nmt.data.loader import Position, UpdateLoader, UpdateWork
from nmt.model import cost
from nmt.model.cost import Processed
from nmt.tokenizer import Tokenizer
from nmt.training.distributed import Process
from nmt.training.trackers import drop_later_records

logger = logging.getLogger(__name__)

# Number of norms in the running mean, and before the first one can be called a spike.
_WINDOW = 100


class GradientMonitor:
    """Running mean of the gradient norm, by which spikes are detected.

    Everything stays on the device: the fused optimizers take the decision as a tensor. A loss that
    is not finite needs no check of its own, because its gradient is not finite either.

    Args:
        max_spike: a norm above this many times the running mean is a spike; 0 disables this.
        mean_norm: initial running mean.
        num_norms: number of norms in it.
        device: device of the gradients.
    """

    def __init__(
        self, max_spike: float, mean_norm: float, num_norms: int, device: torch.device
    ) -> None:
        self._max_spike = max_spike
        self.mean_norm = torch.tensor(mean_norm, dtype=torch.float32, device=device)
        self.num_norms = torch.tensor(num_norms, dtype=torch.int64, device=device)

    def should_skip(self, norm: Tensor) -> Tensor:
        """Decide whether to skip the update with this gradient norm: a boolean scalar.

        The norms of the other updates enter the running mean: a plain mean of the first hundred,
        then an exponential one with a weight of one hundredth.
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
    gradient_norm: float = 0.0  # of the last update that was not skipped
    # The following are kept over the whole run.
    skipped: int = 0
    skipped_in_a_row: int = 0
    mean_norm: float = 0.0  # of the `GradientMonitor`
    num_norms: int = 0
    processed: Processed = field(default_factory=Processed)

    def restarted(self) -> "MetricSums":
        """The sums after a record: those over the whole run stay."""
        kept = "gradient_norm", "skipped", "skipped_in_a_row", "mean_norm", "num_norms", "processed"
        return MetricSums(**{name: getattr(self, name) for name in kept})

    def with_update(self, tokens: int, loss: float, norm: float, is_skipped: bool) -> "MetricSums":
        """The sums including one more update of so many target tokens."""
        sums = replace(self, updates=self.updates + 1, target_tokens=self.target_tokens + tokens)
        if is_skipped:
            in_a_row = self.skipped_in_a_row + 1
            return replace(sums, skipped=self.skipped + 1, skipped_in_a_row=in_a_row)
        loss_tokens = self.loss_tokens + tokens
        sums = replace(sums, loss=self.loss + loss, loss_tokens=loss_tokens)
        return replace(sums, gradient_norm=norm, skipped_in_a_row=0)


@dataclass(frozen=True)
class SkippedUpdate:
    """An update that was skipped, and the running mean of the gradient norm when it was read."""

    update: int
    position: Position
    norm: float
    mean_norm: float


class RunningMetrics:
    """Accumulates metrics; tensors stay on their device until `read`, which synchronises."""

    def __init__(self, sums: MetricSums, monitor: GradientMonitor, process: Process) -> None:
        self._sums = sums
        self._monitor = monitor
        self._process = process
        self._pending: list[tuple[int, UpdateWork]] = []
        self._tensors: list[tuple[Tensor, Tensor, Tensor]] = []
        self._tokens, self._processed = 0, Processed()
        self.start_clock()

    def start_clock(self) -> None:
        """Exclude the time since the last `read`."""
        self._start = time.monotonic()

    def add(
        self, update: int, work: UpdateWork, loss: Tensor, norm: Tensor, is_skipped: Tensor
    ) -> None:
        """Add one update."""
        self._pending.append((update, replace(work, micro_batches=[])))
        self._tensors.append((loss, norm, is_skipped))
        for micro_batch in work.micro_batches:
            batch = micro_batch.batch
            rows, source = batch.source.shape
            target = batch.target_input.size(1)
            self._tokens += int(batch.source_mask.sum()) + batch.num_target_tokens
            self._processed += cost.micro_batch(rows, source, target, batch.num_target_tokens)

    def read(self) -> tuple[MetricSums, list[SkippedUpdate]]:
        """The sums so far, and the updates skipped since the last call. Call it on all ranks."""
        now = time.monotonic()
        sums = replace(self._sums, seconds=self._sums.seconds + now - self._start)
        skipped = []
        if self._pending:
            own_losses, norms, flags = map(torch.stack, zip(*self._tensors, strict=True))
            own = [self._tokens, *astuple(self._processed)]
            counts = torch.tensor(own, dtype=torch.float64, device=norms.device)
            total = self._process.all_reduce(torch.cat((own_losses.double(), counts))).tolist()
            losses = total[: len(self._pending)]
            tokens, *processed = map(int, total[len(self._pending) :])
            on_all = Processed(*processed)
            sums = replace(
                sums,
                tokens=sums.tokens + tokens,
                positions=sums.positions + on_all.source + on_all.target,
                processed=sums.processed + on_all,
                mean_norm=float(self._monitor.mean_norm),
                num_norms=int(self._monitor.num_norms),
            )
            values = zip(self._pending, losses, norms.tolist(), flags.tolist(), strict=True)
            for (update, work), loss, norm, flag in values:
                sums = sums.with_update(work.num_target_tokens, loss, norm, flag)
                if flag:
                    position = Position(work.epoch, work.update_in_epoch)
                    skipped.append(SkippedUpdate(update, position, norm, sums.mean_norm))
        self._pending, self._tensors = [], []
        self._tokens, self._processed, self._start = 0, Processed(), now
        self._sums = sums
        return sums, skipped

    def restart(self) -> None:
        """Begin the sums of the next record."""
        self._sums = self._sums.restarted()


class SkippedUpdates:
    """Writes the sentences of skipped updates to `skipped_updates.jsonl`.

    Records after `last_update` are dropped, since a resumed run writes them again.
    """

    def __init__(
        self,
        config: Config,
        loader: UpdateLoader,
        tokenizers: tuple[Tokenizer, Tokenizer],
        last_update: int,
    ) -> None:
        self._path = config.run_folder / SKIPPED_UPDATES_FILE
        self._max_in_a_row = config.training.max_skipped_in_a_row
        self._loader = loader
        self._tokenizers = tokenizers
        drop_later_records(self._path, last_update)

    def report(self, skipped: list[SkippedUpdate], in_a_row: int) -> None:
        """Log and record skipped updates; raises UserError after too many in a row."""
        for item in skipped:
            self._write(item)
            logger.warning(
                "skipped update %s: gradient norm %.4g, running mean %.4g",
                f"{item.update:,}",
                item.norm,
                item.mean_norm,
            )
        if self._max_in_a_row and in_a_row >= self._max_in_a_row:
            last = skipped[-1]
            raise UserError(
                f"training has diverged: {in_a_row} updates in a row were skipped, up to update"
                f" {last.update:,}; their sentences are in {self._path}. Lower"
                " schedule.peak_learning_rate or raise schedule.warmup_updates and continue with"
                " run.accept_changes=schedule.peak_learning_rate; clean the corpus if the sentences"
                " look wrong; raise training.max_gradient_spike if the norms look normal"
            )

    def _write(self, item: SkippedUpdate) -> None:
        pairs = self._loader.ids(np.concatenate(self._loader.micro_batches(item.position)))
        texts = [
            tokenizer.decode([ids.tolist() for ids in side])
            for tokenizer, side in zip(self._tokenizers, zip(*pairs, strict=True), strict=True)
        ]
        record = {
            "update": item.update,
            "epoch": item.position.epoch + 1,
            "update_in_epoch": item.position.update_in_epoch,
            "gradient_norm": item.norm if math.isfinite(item.norm) else str(item.norm),
            "mean_gradient_norm": item.mean_norm,
            "pairs": list(zip(*texts, strict=True)),
        }
        with writing(self._path), self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
