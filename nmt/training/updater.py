"""Compute the gradient of an update and take the optimizer step."""

import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from nmt.base.errors import first_line, is_out_of_memory
from nmt.config import Compilation, Config, Layout
from nmt.data.batch import Batch
from nmt.data.loader import UpdateWork
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.training.distributed import Process
from nmt.training.memory import keep_freed_memory
from nmt.training.metrics import GradientMonitor, MetricSums
from nmt.training.passes import Passes
from nmt.training.schedule import learning_rate

# `start_tokens` of GPUs: the best of the measured values (docs/decisions/0032-merged-buckets.md).
_START_TOKENS = 10_000


@dataclass(frozen=True)
class Gradient:
    """The result of the backward passes of an update; the tensors are on the device."""

    loss: Tensor  # of this rank, summed over its target tokens
    norm: Tensor  # of the gradient of all ranks, before clipping


class OutOfMemory(Exception):  # noqa: N818 - training continues after it
    """A micro-batch of `rows` pairs, or packed rows, did not fit into memory.

    It keeps no traceback of the original error, whose frames would keep the tensors alive.
    """

    def __init__(self, batch: Batch, error: BaseException) -> None:
        self.rows, source_length = batch.source.shape
        self.kind = "row" if batch.segments else "pair"
        rows = f"1 {self.kind}" if self.rows == 1 else f"{self.rows} {self.kind}s"
        super().__init__(
            f"out of memory in a micro-batch of {rows}, {source_length} source and"
            f" {batch.target_input.size(1)} target tokens long: {first_line(error)}"
        )


class Updater:
    """Computes gradients and takes optimizer steps; `sums` initialise the `GradientMonitor`."""

    def __init__(
        self,
        config: Config,
        network: EncoderDecoder,
        optimizer: torch.optim.Optimizer,
        process: Process,
        sums: MetricSums,
    ) -> None:
        self._config = config
        self._network = network
        self._optimizer = optimizer
        self._process = process
        self.monitor = GradientMonitor(config.training.max_gradient_spike, sums, process.device)
        self._passes = Passes(config, network, process)
        self.precision = self._passes.precision
        if process.device.type == "cpu":
            keep_freed_memory()

    def gradient(self, work: UpdateWork, before_round: Callable[[], None]) -> Gradient:
        """Compute the forward and backward passes of an update; the weights do not change.

        `before_round` is called once per round on every rank, including rounds in which this rank
        has no micro-batch.

        Raises:
            OutOfMemory: a micro-batch of this rank did not fit; all gradients are None.
        """
        self._optimizer.zero_grad(set_to_none=True)
        losses: list[Tensor] = []
        failure: OutOfMemory | None = None
        batches = self._batches(work)
        if self._passes.ddp is not None:
            # DDP would rebuild its groups of gradients by a collective operation in its second
            # forward pass. Ranks reach that pass in different rounds, and would wait for each
            # other forever, so all of them rebuild the groups here.
            self._passes.ddp.reducer._rebuild_buckets()
        with self._passes.of_update():
            for rounds_left in range(work.num_rounds, 0, -1):
                before_round()
                # Ranks with fewer micro-batches start later, since gradients are summed over ranks
                # during the last round.
                if rounds_left > max(1, len(work.micro_batches)):
                    continue
                batch = next(iter(work.micro_batches.values()), None)
                try:
                    if not losses and batch is not None:
                        # Before torch is seeded.
                        self._passes.prepare(batch, len(work.micro_batches))
                    batch, weight = next(batches)
                    losses.append(self._passes(batch, weight, is_last=rounds_left == 1))
                except (MemoryError, RuntimeError) as error:
                    if batch is None or not is_out_of_memory(error):
                        raise
                    failure = OutOfMemory(batch, error)
                    break
        if failure is not None:
            self._optimizer.zero_grad(set_to_none=True)
            gc.collect()
            if self._process.device.type == "cuda":
                torch.cuda.empty_cache()
            raise failure
        max_norm = self._config.optimizer.max_gradient_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self._network.parameters(), max_norm)
        return Gradient(torch.stack(losses).sum(), norm)

    def step(self, gradient: Gradient, update: int) -> Tensor:
        """Take the optimizer step of an update, counted from 1, unless it is skipped.

        Returns:
            Whether it was skipped: a boolean scalar on the device.
        """
        training = self._config.training
        rate = learning_rate(update, self._config.schedule, training.max_updates)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        # A fused optimizer skips an update, without synchronising the device, if its attribute
        # `found_inf`, made for torch's gradient scaler, is 1.
        is_skipped = self.monitor.should_skip(gradient.norm)
        self._optimizer.found_inf = is_skipped.float()  # type: ignore[attr-defined]
        self._optimizer.step()
        return is_skipped

    def _batches(self, work: UpdateWork) -> Iterator[tuple[Batch, float]]:
        """Yield the micro-batches of this rank and the weights of their losses.

        Torch is seeded for each by the seed of the training, the position of the update and the
        number of the micro-batch. Dropout therefore does not change with restarts. On CPUs, where
        buckets are not merged, it does not change with the number of ranks either, except in packed
        rows, whose number per micro-batch depends on it.
        A rank without micro-batches computes one made-up pair with weight zero, because all ranks
        have to take part in summing gradients.
        """
        # DistributedDataParallel averages gradients over ranks, but their sum is needed.
        weight = self._process.world_size / work.num_target_tokens
        seed, position = self._config.training.seed, work.position
        for number, batch in work.micro_batches.items():
            entropy = seed, position.epoch, position.update_in_epoch, number
            state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
            torch.manual_seed(int(state[0] >> 1))
            yield batch, weight
        if not work.micro_batches:
            ids = torch.zeros(1, 1, dtype=torch.int64)
            is_token = torch.ones_like(ids, dtype=torch.bool)
            yield Batch(ids, is_token, ids, ids, is_token, 1), 0.0


def start_tokens_on(device: torch.device) -> int:
    """Return `BucketedPlan.start_tokens` of a device; 0 on a CPU, where starts cost little."""
    return _START_TOKENS if device.type == "cuda" else 0


def choose_updates(config: Config) -> Config:
    """Replace `batching.layout=auto` and `training.compile=auto`."""
    batching, training = config.batching, config.training
    # Packed and compiled updates become the choice on GPUs when they have been measured on one.
    if batching.layout is Layout.auto:
        batching = replace(batching, layout=Layout.bucketed)
    if training.compile is Compilation.auto:
        training = replace(training, compile=Compilation.never)
    return replace(config, batching=batching, training=training)
