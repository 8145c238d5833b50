"""What a run says of itself: lines on the screen and in train.log, records in metrics.jsonl."""

import logging

from nmt.config import Config
from nmt.data.loader import UpdateWork
from nmt.training.checkpoint import Progress
from nmt.training.distributed import Process
from nmt.training.schedule import learning_rate
from nmt.training.throughput import Figures
from nmt.training.tracking import Tracker
from nmt.training.validation import ValidationResult

logger = logging.getLogger(__name__)


class RunLog:
    """Lines and records of one run; only the first process has one.

    Args:
        config: the experiment.
        progress: where the run starts or continues; records after it are dropped, as a continued
            run writes them again.
    """

    def __init__(self, config: Config, progress: Progress) -> None:
        self._config = config
        self._tracker = Tracker(config, config.run_folder, progress.run_id, progress.update)

    def start(self, process: Process, num_parameters: int, precision: str, at: Progress) -> None:
        """Say what is about to be done."""
        logger.info(
            "training %s on %d %s process%s, %s",
            f"{num_parameters / 1e6:.2f} million parameters",
            process.world_size,
            process.device.type,
            "es" if process.world_size > 1 else "",
            precision,
        )
        if at.update:
            logger.info(
                "continuing from update %s, epoch %d", f"{at.update:,}", at.position.epoch + 1
            )

    def updates(self, progress: Progress, work: UpdateWork, figures: Figures, norm: float) -> None:
        """Record the updates since the last record; `norm` is the last gradient's."""
        update, training = progress.update, self._config.training
        rate = learning_rate(update, self._config.schedule, training.max_updates)
        self._tracker.log(
            update,
            {
                "epoch": work.epoch,
                "train/loss": figures.mean_loss,
                "train/learning_rate": rate,
                "train/gradient_norm": norm,
                "train/target_tokens": progress.target_tokens,
                "train/target_tokens_per_second": figures.target_tokens_per_second,
                "train/share_not_padding": figures.share_not_padding,
                "train/seconds": progress.seconds,
            },
        )
        logger.info(
            "update %s of %s  epoch %d  loss %.3f  rate %.2e  %s target tokens/s  padding %.1f %%"
            "  at most %s left",
            f"{update:,}",
            f"{training.max_updates:,}",
            work.epoch + 1,
            figures.mean_loss,
            rate,
            f"{figures.target_tokens_per_second:,.0f}",
            100 * (1 - figures.share_not_padding),
            _duration(self._seconds_left(progress, figures.seconds_per_update)),
        )

    def validation(self, update: int, result: ValidationResult, is_best: bool) -> None:
        """Record a validation."""
        self._tracker.log(
            update,
            {
                "valid/loss": result.loss,
                "valid/perplexity": result.perplexity,
                "valid/bleu": result.bleu,
            },
        )
        logger.info(
            "update %s  valid loss %.4f  perplexity %.2f  BLEU %.2f%s",
            f"{update:,}",
            result.loss,
            result.perplexity,
            result.bleu,
            "  best so far" if is_best else "",
        )

    def close(self) -> None:
        """Write out what is left."""
        self._tracker.close()

    def _seconds_left(self, progress: Progress, seconds_per_update: float) -> float:
        training = self._config.training
        left = (training.max_updates - progress.update) * seconds_per_update
        if training.max_minutes:
            left = min(left, training.max_minutes * 60 - progress.seconds)
        return left


def _duration(seconds: float) -> str:
    minutes, whole_seconds = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole_seconds:02d}"
