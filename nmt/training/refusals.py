"""What is said and written of updates that were refused."""

import json
import logging
import math
from pathlib import Path

import numpy as np

from nmt.data.loader import UpdateLoader
from nmt.errors import UserError
from nmt.files import writing
from nmt.tokenizer import Tokenizer
from nmt.training.distributed import Process
from nmt.training.tally import Counts, Refused
from nmt.training.tracking import drop_later_records

logger = logging.getLogger(__name__)

REFUSED_FILE = "refused_updates.jsonl"


class RefusalLog:
    """Finds the micro-batch that an update was refused for, and writes down its sentences.

    Args:
        path: `refused_updates.jsonl`.
        loader: to find the micro-batch again; the plan is pure, so nothing had to be kept.
        tokenizers: of the source and of the target.
        process: this process among those that train together; the first one writes.
        last_update: records after this update are dropped: a continued run writes them again.
        max_in_a_row: refused updates in a row after which training stops.
    """

    def __init__(
        self,
        path: Path,
        loader: UpdateLoader,
        tokenizers: tuple[Tokenizer, Tokenizer],
        process: Process,
        last_update: int,
        max_in_a_row: int,
    ) -> None:
        if process.is_first:
            drop_later_records(path, last_update)
        self._path = path
        self._loader = loader
        self._tokenizers = tokenizers
        self._process = process
        self._max_in_a_row = max_in_a_row

    def report(self, refused: list[Refused], counts: Counts) -> None:
        """Log and write what was refused; all processes have to call it.

        Raises:
            UserError: too many in a row.
        """
        for item in refused:
            parts = self._loader.micro_batches(item.position)
            number = self._worst_micro_batch(item, parts)
            if self._process.is_first:
                self._write(item, number, parts[number])
        if self._max_in_a_row and counts.refused_in_a_row >= self._max_in_a_row:
            last = refused[-1]
            raise UserError(
                f"training has diverged: {counts.refused_in_a_row} updates in a row, to update"
                f" {last.update:,}, had a gradient that could not be followed (the last one's norm"
                f" is {last.norm:.4g}, usual was {counts.mean_norm:.4g}); their sentences are in"
                f" {self._path}. Lower schedule.peak_learning_rate or raise"
                " schedule.warmup_updates (run.accept_changes=schedule.peak_learning_rate goes on"
                " from the last checkpoint); clean the corpus where the sentences look wrong; raise"
                " training.max_gradient_spike where the norms look sound"
            )

    def _worst_micro_batch(self, item: Refused, parts: list[np.ndarray]) -> int:
        """The number of the micro-batch with no finite loss, else of the highest loss a token."""
        tokens = self._loader.num_target_tokens
        own = [
            (math.inf if not math.isfinite(loss) else loss / tokens(parts[number]), -number)
            for number, loss in zip(self._loader.share(item.position), item.losses, strict=True)
        ]
        worst = max(own, default=(-math.inf, 0))
        return -max(self._process.from_all(worst))[1]

    def _texts(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> list[list[str]]:
        sides = zip(*pairs, strict=True)
        return [
            tokenizer.decode([ids.tolist() for ids in side])
            for tokenizer, side in zip(self._tokenizers, sides, strict=True)
        ]

    def _write(self, item: Refused, number: int, part: np.ndarray) -> None:
        is_finite = math.isfinite(item.norm)
        reason = "a spike" if is_finite else "no finite number"
        pairs = self._loader.ids(part)
        record = {
            "update": item.update,
            "epoch": item.position.epoch,
            "update_in_epoch": item.position.update_in_epoch,
            "reason": reason,
            "gradient_norm": item.norm if is_finite else str(item.norm),
            "usual_gradient_norm": item.usual_norm,
            "micro_batch": number,
            "pairs": list(zip(*self._texts(pairs), strict=True)),
        }
        with writing(self._path), self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
        logger.warning(
            "update %s left the weights as they were: its gradient's norm is %.4g (%s; usual is"
            " %.4g); the %d pairs of its micro-batch %d are in %s",
            f"{item.update:,}",
            item.norm,
            reason,
            item.usual_norm,
            len(pairs),
            number,
            self._path,
        )
