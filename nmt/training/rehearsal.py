"""Training in small: some micro-batches through the real updater, and all of it thrown away."""

import torch

from nmt.config import Config
from nmt.data.batch import Batch
from nmt.data.loader import MicroBatch, Position, UpdateWork
from nmt.decoding.weights import DecodingWeights
from nmt.model.memory import Shape
from nmt.model.transformer import Transformer
from nmt.training.distributed import Process
from nmt.training.guard import GradientGuard
from nmt.training.optimizer import build_optimizer
from nmt.training.updater import Updater


class Rehearsal:
    """A fresh model, its optimizer and its updater; nothing is read or written.

    Args:
        config: the experiment.
        vocabulary_sizes: V of the source and of the target.
        device: where it computes, alone.

    Attributes:
        transformer: the model, in training.
        updater: makes its updates.
    """

    def __init__(
        self, config: Config, vocabulary_sizes: tuple[int, int], device: torch.device
    ) -> None:
        self._vocabulary_sizes = vocabulary_sizes
        self.device = device
        self._config = config
        self.transformer = Transformer(config.model, *vocabulary_sizes).to(device).train()
        self._optimizer = build_optimizer(self.transformer, config.optimizer)
        guard = GradientGuard(config.training.max_gradient_spike, 0.0, 0, device)
        process = Process(0, 1, device)
        self.updater = Updater(config, self.transformer, self._optimizer, guard, process)

    def gradient(self, batches: list[Batch]) -> None:
        """Forward and backward of some micro-batches, as of one update.

        Raises:
            OutOfMemory: they do not fit.
        """
        num_tokens = sum(batch.num_target_tokens for batch in batches)
        micro_batches = [MicroBatch(number, batch) for number, batch in enumerate(batches)]
        work = UpdateWork(0, 0, num_tokens, len(batches), len(batches), micro_batches, Position())
        self._gradient = self.updater.gradient(work, lambda: None)
        self.wait()

    def step(self) -> None:
        """The optimizer's step along the last gradient."""
        self.updater.step(self._gradient, 1)
        self.wait()

    def search(self, batches: list[Shape]) -> None:
        """What beam search holds at the last step of these batches, all of them at once."""
        # In training its weights are made anew for each validation.
        model = DecodingWeights(self.transformer, self._config.decoding.precision).now()
        with torch.inference_mode():
            held = [self._last_step(model, batch) for batch in batches]
        self.wait()
        del held

    def _last_step(self, model: Transformer, batch: Shape) -> tuple[object, ...]:
        """What one batch holds at the last step."""
        num_beams = self._config.decoding.beam_size
        source = self._made_up(batch.rows, batch.source, self._vocabulary_sizes[0])
        mask = torch.ones_like(source, dtype=torch.bool)
        state = model.start(model.encode(source, mask), mask)
        all_rows = torch.arange(batch.rows, device=self.device).repeat_interleave(num_beams)
        state.reorder(all_rows)
        for _ in range(batch.target - 1):
            state.take_slots()
        state.positions = batch.target - 1
        tokens = self._made_up(len(all_rows), 1, self._vocabulary_sizes[1])[:, 0]
        logits, state = model.step(tokens, state)
        log_probs = logits.log_softmax(dim=-1)
        log_probs.view(batch.rows, -1).topk(2 * num_beams)
        for cache in state.caches:  # as when sentences leave, of which all but one may stay
            cache.keep(torch.arange(batch.rows, device=self.device))
        return state, logits, log_probs

    def made_up_batch(self, shape: Shape) -> Batch:
        """Random ids, nothing padded."""
        source = self._made_up(shape.rows, shape.source, self._vocabulary_sizes[0])
        target = self._made_up(shape.rows, shape.target, self._vocabulary_sizes[1])
        is_source, is_target = (torch.ones_like(ids, dtype=torch.bool) for ids in (source, target))
        return Batch(source, is_source, target, target, is_target, target.numel())

    def wait(self) -> None:
        """Until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _made_up(self, rows: int, length: int, vocabulary_size: int) -> torch.Tensor:
        return torch.randint(vocabulary_size, (rows, length), device=self.device)
