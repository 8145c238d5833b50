"""The interface of a tracker, and the data that trackers receive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SENTENCE_COLUMNS = ["source", "reference", "translation", "chrF"]
SCORE_COLUMNS = ["test set", "metric", "score", "ci95", "signature"]


@dataclass(frozen=True)
class Sentence:
    """A validation sentence and its translation; chrF is from 0 to 100."""

    source: str
    reference: str
    translation: str
    chrf: float

    @property
    def row(self) -> list[Any]:
        """Cells in the order of `SENTENCE_COLUMNS`."""
        return [self.source, self.reference, self.translation, self.chrf]


@dataclass(frozen=True)
class Picture:
    """An image with its caption."""

    caption: str
    pixels: NDArray[np.uint8]  # (height, width, 3)


@dataclass(frozen=True)
class Validation:
    """Results of a validation.

    Attributes:
        metrics: `valid/loss`, `valid/perplexity` and `valid/bleu`.
        target_tokens: number of target tokens of training so far.
        hypotheses: translation of each validation sentence.
        sentences: the same few sentences at each validation.
        pictures: attention maps of some of these sentences.
    """

    metrics: Mapping[str, float]
    target_tokens: int
    hypotheses: Sequence[str] = ()
    sentences: Sequence[Sentence] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class CompletedRun:
    """Results of a completed run.

    Attributes:
        folder: the run folder.
        corpus: the corpus folder.
        result: the content of `result.json`.
    """

    folder: Path
    corpus: Path
    result: Mapping[str, Any]

    @property
    def scores(self) -> list[list[Any]]:
        """Rows of `SCORE_COLUMNS`; ci95 is half the width of the 95 % confidence interval."""
        return [
            [test_set, metric, value["score"], value.get("ci95"), value["signature"]]
            for test_set, table in self.result["test_sets"].items()
            for metric, value in table.items()
            if isinstance(value, Mapping) and "signature" in value and "score" in value
        ]

    @property
    def metrics(self) -> dict[str, float]:
        """The scores of the chosen weights, such as `chosen/loss` and `test/<test set>/bleu`."""
        tests = {f"test/{name}/{metric}": score for name, metric, score, *_ in self.scores}
        return {**{f"chosen/{key}": value for key, value in self.result["valid"].items()}, **tests}


class Tracker:
    """A destination of metrics; methods that a tracker does not need do nothing."""

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Store or send the metrics of an update."""

    def validation(self, update: int, validation: Validation) -> None:
        """Store or send a validation; by default only its metrics."""
        self.log(update, validation.metrics)

    def alert(self, update: int, title: str, text: str) -> None:
        """Notify the user of something that needs attention."""

    def completed(self, run: CompletedRun) -> None:
        """Store or send what a run has produced."""

    def flush(self) -> None:
        """Write all records to disk, if this tracker has a file."""

    def abandon(self, has_no_answer: bool) -> None:
        """Release what a failed call holds; `has_no_answer` after a timeout or lost connection."""

    def close(self, has_failed: bool = False) -> None:
        """End the run; `has_failed` if an error or a signal has ended the training."""
