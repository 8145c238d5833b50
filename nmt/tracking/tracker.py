"""The interface of a tracker, and the data that trackers receive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Picture(NamedTuple):
    """An image with its caption."""

    caption: str
    pixels: NDArray[np.uint8]  # (height, width, 3)


class Table(NamedTuple):
    """Rows of texts and numbers; None is an empty cell."""

    columns: list[str]
    rows: list[list[Any]]


Record = Mapping[str, Any]
"""Values by key: numbers, and in some records tables and pictures."""


@dataclass(frozen=True)
class Validation:
    """Results of a validation.

    Attributes:
        metrics: `valid/loss`, `valid/perplexity` and `valid/bleu`.
        target_tokens: number of target tokens of training so far.
        hypotheses: translation of each validation sentence.
        samples: some of the sentences as a table, and pictures of their attention.
    """

    metrics: Mapping[str, float]
    target_tokens: int
    hypotheses: Sequence[str] = ()
    samples: Record = field(default_factory=dict)


@dataclass(frozen=True)
class CompletedRun:
    """A completed run: its folder, that of its corpus, and the content of `result.json`."""

    folder: Path
    corpus: Path
    result: Mapping[str, Any]

    @property
    def scores(self) -> Table:
        """The scores of the test sets; ci95 is half the width of the 95 % confidence interval."""
        rows = [
            [test_set, metric, value["score"], value.get("ci95"), value["signature"]]
            for test_set, table in self.result["test_sets"].items()
            for metric, value in table.items()
            if isinstance(value, Mapping) and "signature" in value and "score" in value
        ]
        return Table(["test set", "metric", "score", "ci95", "signature"], rows)

    @property
    def metrics(self) -> dict[str, float]:
        """The scores of the chosen weights, with their intervals, and the cost of the training.

        Examples are `chosen/loss`, `test/<test set>/bleu`, `test/<test set>/bleu_ci95` and
        `cost/training_flops`.
        """
        metrics = {f"chosen/{key}": value for key, value in self.result["valid"].items()}
        for test_set, metric, score, ci95, _ in self.scores.rows:
            metrics[f"test/{test_set}/{metric}"] = score
            if ci95 is not None:
                metrics[f"test/{test_set}/{metric}_ci95"] = ci95
        return {**metrics, **{f"cost/{key}": v for key, v in self.result.get("cost", {}).items()}}


class Tracker:
    """A destination of metrics.

    By default, `validation` and `completed` call `log`, and all other methods do nothing.
    """

    def log(self, update: int, record: Record) -> None:
        """Store or send a record of an update."""

    def validation(self, update: int, validation: Validation) -> None:
        """Store or send a validation."""
        self.log(update, {**validation.metrics, **validation.samples})

    def alert(self, update: int, title: str, text: str) -> None:
        """Notify the user of something that needs attention."""

    def completed(self, run: CompletedRun) -> None:
        """Store or send the scores of a run."""
        self.log(run.result["updates"], {**run.metrics, "test/scores": run.scores})

    def flush(self) -> None:
        """Write all records to disk, if this tracker has a file."""

    def abandon(self, has_no_answer: bool) -> None:
        """Release what a failed call holds; `has_no_answer`: after a timeout or lost connection."""

    def close(self, has_failed: bool = False) -> None:
        """End the run; `has_failed` is True if an error or a signal has ended the training."""
