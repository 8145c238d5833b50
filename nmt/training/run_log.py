"""Log lines, metrics and progress of a run."""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from nmt.base.layout import METRICS_FILE
from nmt.base.progress import FILE_ONLY, Advance, progress_bars
from nmt.config import BatchingConfig, Config, Precision, TrainingConfig
from nmt.data.batching import trainable_pairs
from nmt.data.corpus import ParallelCorpus
from nmt.data.mixing import Mixing
from nmt.model.build import count_parameters
from nmt.tracking.file_tracker import FileTracker, complete_records
from nmt.tracking.tracker import Tracker, Validation
from nmt.trained_model import TrainedModel
from nmt.training.checkpoint import TrainingState
from nmt.training.distributed import Process
from nmt.training.metrics import MetricSums
from nmt.training.schedule import learning_rate
from nmt.training.validation import ValidationResult

logger = logging.getLogger(__name__)

_SUSPICIOUS_IN_A_ROW = 3


class RunLog:
    """Reports a run to the log, `metrics.jsonl`, another tracker and the terminal.

    `tracker` receives the records of `metrics.jsonl`, and also translations and alerts.
    """

    def __init__(self, config: Config, state: TrainingState, tracker: Tracker) -> None:
        self._config = config
        path = config.run_folder / METRICS_FILE
        file = FileTracker(path, state.update, state.validation_due)
        self._trackers = [file, tracker]
        self._num_suspicious = 0  # last validations in a row with a BLEU of 0.00 or 100.00
        for _, one in complete_records(path):
            self._count_suspicious(one)
        if state.validation_due and (record := file.last_record()).get("update") == state.update:
            # Other trackers cannot drop a validation alone. They dropped all records of the update,
            # so they need its training metrics again.
            tracker.log(record.pop("update"), record)
        self._bars = progress_bars()
        self._bars.start()
        total = config.training.max_updates
        self._bar = self._bars.add_task("training", total=total, completed=state.update)
        if state.update:
            logger.info(
                f"continuing from update {state.update:,}, epoch {state.position.epoch + 1}"
            )

    def step(self, update: int) -> None:
        """Advance the progress bar."""
        self._bars.update(self._bar, completed=update)

    def updates(self, state: TrainingState, epoch: int, sums: MetricSums) -> None:
        """Record the updates since the last record."""
        update, training = state.update, self._config.training
        rate = learning_rate(update, self._config.schedule, training.max_updates)
        speed = sums.target_tokens / max(sums.seconds, 1e-9)
        share_not_padding = sums.tokens / max(1, sums.positions)
        # If all updates were skipped, there is no loss.
        loss = {"train/loss": sums.loss / sums.loss_tokens} if sums.loss_tokens else {}
        metrics = {
            "epoch": epoch + 1,
            **loss,
            "train/learning_rate": rate,
            "train/gradient_norm": sums.gradient_norm,
            "train/skipped_updates": sums.skipped,
            "train/target_tokens": state.target_tokens,
            "train/target_tokens_per_second": speed,
            "train/share_not_padding": share_not_padding,
            "train/seconds": state.seconds,
        }
        for tracker in self._trackers:
            tracker.log(update, metrics)
        left = timedelta(seconds=int(_seconds_left(training, update, state.seconds)))
        text = (
            f"epoch {epoch + 1}  loss {loss.get('train/loss', math.nan):.3f}"
            f"  {speed:,.0f} target tokens/s"
        )
        self._bars.update(self._bar, description=text)
        logger.info(
            f"update {update:,} of {training.max_updates:,}  {text}  learning rate {rate:.2e}"
            f"  padding {100 * (1 - share_not_padding):.1f} %"
            f"  about {left} left",
            extra=FILE_ONLY,
        )

    @contextmanager
    def validating(self, num_sentences: int) -> Iterator[Advance]:
        """Show the progress of a validation."""
        bar = self._bars.add_task("validating", total=num_sentences)
        yield lambda count: self._bars.advance(bar, count)
        self._bars.remove_task(bar)

    def validation(self, state: TrainingState, result: ValidationResult, is_best: bool) -> None:
        """Record a validation; `is_best`: the chosen metric is better than in all earlier ones."""
        update = state.update
        losses = {"valid/loss": result.loss, "valid/perplexity": result.perplexity}
        metrics = {**losses, "valid/bleu": result.bleu}
        validation = Validation(metrics, state.target_tokens, result.hypotheses)
        for tracker in self._trackers:
            tracker.validation(update, validation)
        best = "  best so far" if is_best else ""
        logger.info(
            # A model that diverged has a perplexity of hundreds of digits.
            f"update {update:,}  valid loss {result.loss:.4f}"
            f"  perplexity {result.perplexity:{'.2f' if result.perplexity < 1e6 else '.1e'}}"
            f"  BLEU {result.bleu:.2f}{best}"
        )
        self._count_suspicious(metrics)
        if self._num_suspicious == _SUSPICIOUS_IN_A_ROW:
            text = (
                f"BLEU was {result.bleu:.2f} in {_SUSPICIOUS_IN_A_ROW} validations in a row, so it"
                " cannot tell checkpoints apart; check the references of valid, the target"
                " language in corpus.direction and evaluation.bleu_tokenizer"
                f" ({self._config.evaluation.bleu_tokenizer}), or train for longer"
            )
            logger.warning(text)
            self.alert(update, "suspicious BLEU", text)

    def _count_suspicious(self, record: Mapping[str, float]) -> None:
        if (bleu := record.get("valid/bleu")) is not None:
            is_suspicious = f"{bleu:.2f}" in ("0.00", "100.00")
            self._num_suspicious = self._num_suspicious + 1 if is_suspicious else 0

    def alert(self, update: int, title: str, text: str) -> None:
        """Notify the user through the trackers; the caller also logs or raises an error."""
        for tracker in self._trackers:
            tracker.alert(update, title, text)

    def flush(self) -> None:
        """Write all records to disk."""
        for tracker in self._trackers:
            tracker.flush()

    def close(self) -> None:
        """Close the progress bars; the caller of the trainer closes the tracker."""
        self._bars.stop()


def log_size(
    batching: BatchingConfig,
    pairs: ParallelCorpus,
    mixing: Mixing | None,
    model: TrainedModel,
    process: Process,
    precision: Precision,
) -> None:
    """Log the size of a training, the shares of its sources, and the pairs that it leaves out."""
    kept = trainable_pairs(pairs.source_lengths, pairs.target_lengths, batching)
    if len(kept) < len(pairs):
        logger.info(
            f"{len(pairs) - len(kept):,} of {len(pairs):,} pairs are longer than"
            " batching.max_source_length or max_target_length and are left out"
        )
    stages = mixing.stages(kept) if mixing and len(mixing.sizes) > 1 else {}
    for epoch, numbers in stages.items():
        total = max(1, sum(numbers.values()))
        parts = [f"{name} {n:,} ({n / total:.0%})" for name, n in numbers.items()]
        logger.info("pairs per epoch from epoch %d: %s", epoch + 1, ", ".join(parts))
    logger.info(
        f"training {count_parameters(model.network) / 1e6:.2f} million parameters with"
        f" {process.world_size} process{'es' if process.world_size > 1 else ''} on"
        f" {process.device.type} in {precision}"
    )
    if process.world_size > 1 and process.device.type == "cpu":
        logger.warning("no GPU is available: all processes share the CPU cores")


def _seconds_left(training: TrainingConfig, update: int, seconds: float) -> float:
    """Estimate the time left from that of the updates so far; NaN before the first one."""
    left = seconds / update * (training.max_updates - update) if update else math.nan
    if training.max_minutes:
        left = min(left, max(0.0, training.max_minutes * 60 - seconds))
    return left
