"""What has been trained since the last record: loss, speed, padding, refused updates."""

import time
from dataclasses import astuple, dataclass, field, replace

import torch
from torch import Tensor

from nmt.data.loader import Position, UpdateWork
from nmt.model import cost
from nmt.model.cost import Processed
from nmt.training.distributed import Process
from nmt.training.guard import GradientGuard
from nmt.training.updater import Gradient


@dataclass(frozen=True)
class Counts:
    """Sums since the last record, over all processes; a checkpoint keeps them.

    So the records of a run that was stopped in between are those of one that was not.

    Attributes:
        updates: made, the refused ones among them.
        loss: in nats, over the target tokens of the updates that were not refused.
        loss_tokens: those target tokens.
        target_tokens: of all updates; EOS counted, padding not.
        real: places of source and target that hold a token.
        computed: places of source and target, padding counted.
        seconds: of wall-clock time.
        norm: of the last gradient that was not refused.
        refused: updates refused since the run began.
        refused_in_a_row: at the end.
        mean_norm: the guard's.
        num_norms: the guard's.
        processed: what has gone through the model since the run began.
    """

    updates: int = 0
    loss: float = 0.0
    loss_tokens: int = 0
    target_tokens: int = 0
    real: int = 0
    computed: int = 0
    seconds: float = 0.0
    norm: float = 0.0
    refused: int = 0
    refused_in_a_row: int = 0
    mean_norm: float = 0.0
    num_norms: int = 0
    processed: Processed = field(default_factory=Processed)

    def after_record(self) -> "Counts":
        """What the next record starts from."""
        return Counts(
            norm=self.norm,
            refused=self.refused,
            refused_in_a_row=self.refused_in_a_row,
            mean_norm=self.mean_norm,
            num_norms=self.num_norms,
            processed=self.processed,
        )


@dataclass(frozen=True)
class Refused:
    """An update whose gradient was not followed.

    Attributes:
        update: its number, from 1.
        position: its place in the data.
        norm: of the gradient.
        usual_norm: the mean of those before, as it is now.
        losses: this process's micro-batches' losses, summed over their target tokens.
    """

    update: int
    position: Position
    norm: float
    usual_norm: float
    losses: list[float]


@dataclass(frozen=True)
class _Unread:
    update: int
    position: Position
    target_tokens: int
    gradient: Gradient
    is_refused: Tensor


class Tally:
    """Adds up updates; tensors stay on their device until `read`, which alone waits for it.

    Args:
        counts: where to go on from.
        guard: its running mean is read with the rest.
        process: this process among those that train together.
        num_passes: how often a micro-batch goes through the model.
    """

    def __init__(
        self, counts: Counts, guard: GradientGuard, process: Process, num_passes: int
    ) -> None:
        self._counts = counts
        self._guard = guard
        self._process = process
        self._num_passes = num_passes
        self._unread: list[_Unread] = []
        self._real, self._processed = 0, Processed()
        self.start_clock()

    def start_clock(self) -> None:
        """Time since the last `read` was not spent in training."""
        self._started = time.monotonic()

    def add(self, update: int, work: UpdateWork, gradient: Gradient, is_refused: Tensor) -> None:
        """Count one update."""
        position = Position(work.epoch, work.update_in_epoch)
        self._unread.append(_Unread(update, position, work.num_target_tokens, gradient, is_refused))
        for micro_batch in work.micro_batches:
            batch = micro_batch.batch
            real = int(batch.source_mask.sum()) + batch.num_target_tokens
            self._real += self._num_passes * real
            rows, source_length = batch.source.shape
            target_length = batch.target_input.size(1)
            self._processed += cost.micro_batch(
                rows, source_length, target_length, batch.num_target_tokens, self._num_passes
            )

    def read(self) -> tuple[Counts, list[Refused]]:
        """The sums so far, and the updates since the last reading that were refused.

        All processes have to call it at the same update.
        """
        now = time.monotonic()
        counts = replace(self._counts, seconds=self._counts.seconds + now - self._started)
        refused = []
        if self._unread:
            gradients = [unread.gradient for unread in self._unread]
            device = self._process.device
            own = [self._real, *astuple(self._processed)]
            places = torch.tensor(own, dtype=torch.float64, device=device)
            losses = torch.stack([gradient.loss for gradient in gradients]).double()
            sums = self._process.sum(torch.cat((losses, places))).tolist()
            losses_of_all, (real, *rest) = sums[: len(losses)], map(int, sums[len(losses) :])
            processed = Processed(*rest)
            norms = torch.stack([gradient.norm for gradient in gradients]).tolist()
            refusals = torch.stack([unread.is_refused for unread in self._unread]).tolist()
            mean_norm, num_norms = float(self._guard.mean_norm), int(self._guard.num_norms)
            counts = replace(
                counts,
                real=counts.real + real,
                computed=counts.computed + processed.source + processed.target,
                processed=counts.processed + processed,
                mean_norm=mean_norm,
                num_norms=num_norms,
            )
            for unread, loss, norm, is_refused in zip(
                self._unread, losses_of_all, norms, refusals, strict=True
            ):
                counts = _counted(counts, unread.target_tokens, loss, norm, is_refused)
                if is_refused:
                    parts = [float(part) for part in unread.gradient.losses]
                    refused.append(Refused(unread.update, unread.position, norm, mean_norm, parts))
        self._unread, self._real, self._processed, self._started = [], 0, Processed(), now
        self._counts = counts
        return counts, refused

    def restart(self) -> None:
        """A record has been written."""
        self._counts = self._counts.after_record()


def _counted(counts: Counts, tokens: int, loss: float, norm: float, is_refused: bool) -> Counts:
    counts = replace(
        counts, updates=counts.updates + 1, target_tokens=counts.target_tokens + tokens
    )
    if is_refused:
        return replace(
            counts, refused=counts.refused + 1, refused_in_a_row=counts.refused_in_a_row + 1
        )
    return replace(
        counts,
        loss=counts.loss + loss,
        loss_tokens=counts.loss_tokens + tokens,
        norm=norm,
        refused_in_a_row=0,
    )
