"""What a run says of itself: lines on the screen and in train.log, records in metrics.jsonl."""

import logging
import math

from nmt.config import Config, ScheduleName
from nmt.data.loader import UpdateWork
from nmt.training.checkpoint import Progress
from nmt.training.distributed import Process
from nmt.training.schedule import learning_rate
from nmt.training.tally import Counts
from nmt.training.tracking import Tracker
from nmt.training.validation import ValidationResult

logger = logging.getLogger(__name__)


class RunLog:
    """Lines and records of one run; only the first process has one.

    Args:
        config: the experiment.
        run_id: the tracker's id of the run.
        progress: where the run starts or continues; records after it are dropped, as a continued
            run writes them again.
    """

    def __init__(self, config: Config, run_id: str, progress: Progress) -> None:
        self._config = config
        self._tracker = Tracker(
            config, config.run_folder, run_id, progress.update, progress.validation_due
        )

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

    def updates(self, progress: Progress, work: UpdateWork, counts: Counts) -> None:
        """Record the updates since the last record."""
        update, training = progress.update, self._config.training
        rate = learning_rate(update, self._config.schedule, training.max_updates)
        seconds = max(counts.seconds, 1e-9)
        speed, padding = counts.target_tokens / seconds, 1 - counts.real / max(1, counts.computed)
        # There is no mean loss where every update was refused.
        loss = {"train/loss": counts.loss / counts.loss_tokens} if counts.loss_tokens else {}
        self._tracker.log(
            update,
            {
                "epoch": work.epoch,
                **loss,
                "train/learning_rate": rate,
                "train/gradient_norm": counts.norm,
                "train/refused_updates": counts.refused,
                "train/target_tokens": progress.target_tokens,
                "train/target_tokens_per_second": speed,
                "train/share_not_padding": 1 - padding,
                "train/seconds": progress.seconds,
            },
        )
        logger.info(
            "update %s of %s  epoch %d  loss %.3f  rate %.2e  %s target tokens/s  padding %.1f %%"
            "  about %s left",
            f"{update:,}",
            f"{training.max_updates:,}",
            work.epoch + 1,
            loss.get("train/loss", math.nan),
            rate,
            f"{speed:,.0f}",
            100 * padding,
            _duration(self._seconds_left(progress, seconds / counts.updates)),
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

    def end(self, progress: Progress) -> None:
        """Say so if time or patience ended training before its schedule brought the rate down."""
        schedule, max_updates = self._config.schedule, self._config.training.max_updates
        if schedule.name is ScheduleName.inverse_square_root or progress.update >= max_updates:
            return
        rate = learning_rate(progress.update, schedule, max_updates)
        if rate > schedule.final_learning_rate:
            logger.info(
                "training ends at update %s of %s, while the rate stands at %.2e; a schedule of"
                " training.max_updates=%d comes down to %.2e in as many updates",
                f"{progress.update:,}",
                f"{max_updates:,}",
                rate,
                progress.update,
                schedule.final_learning_rate,
            )

    def flush(self) -> None:
        """Bring the records to the disk."""
        self._tracker.flush()

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
