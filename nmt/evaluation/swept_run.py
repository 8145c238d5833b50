"""A run of a sweep, as far as its files can be read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import read_lines, read_record
from nmt.config import Config, flattened, load_config, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.records import Failure, Pruned, Status, read_metrics, read_result, with_number
from nmt.evaluation.systems import corpus_of
from nmt.model.build import count_parameters, meta_model

Content = TypeVar("Content")


@dataclass(frozen=True)
class SweptRun:
    """A run of a sweep.

    Attributes:
        name: name of the run folder: the overrides that vary in the sweep.
        config: the flattened configuration; empty if it cannot be read.
        records: contents of `metrics.jsonl`.
        result: contents of `result.json`; None unless the run is complete and counted, and the file
            readable.
        corpus: the prepared corpus; None if it no longer exists.
        hypotheses: translations of the validation set; empty if there are none yet.
        parameters: number of parameters; None if the configuration or the corpus is unknown.
        notes: last lines of a failed run, when a run was pruned, why files cannot be read, and why
            a complete run is not counted.
    """

    name: str
    status: Status
    config: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    result: Mapping[str, Any] | None
    corpus: PreparedCorpus | None
    hypotheses: Sequence[str]
    parameters: int | None
    notes: Sequence[str]

    @property
    def seed(self) -> str:
        """Seed of the training."""
        return str(self.config.get("training.seed", ""))

    def score(self, metric: str) -> float | None:
        """Return `bleu` or `loss` on validation, or `test_bleu` of the first test set.

        An incomplete run has the scores of its best validation so far, and no `test_bleu`.
        """
        if self.result is None:
            found = with_number(self.records, "valid/bleu")
            return max(found, key=lambda one: one["valid/bleu"], default={}).get(f"valid/{metric}")
        if metric == "test_bleu":
            tests = list(self.result["test_sets"].values())
            return tests[0]["bleu"]["score"] if tests else None
        return self.result["valid"][metric]

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return self.result["updates"] if self.result else self._last("update") or 0

    @property
    def seconds(self) -> float | None:
        """Time of training and validation so far."""
        return self.result["training_seconds"] if self.result else self._last("train/seconds")

    @property
    def flops(self) -> float | None:
        """Floating-point operations of the training; None unless it is complete."""
        return self.result.get("cost", {}).get("training_flops") if self.result else None

    def order(self) -> tuple[bool, float, float]:
        """Sort key: complete runs first, then by BLEU and loss on validation, the best first."""
        bleu, loss = self.score("bleu"), self.score("loss")
        return self.result is None, 1.0 if bleu is None else -bleu, loss or 0

    def _last(self, key: str) -> Any:
        return next((one[key] for one in reversed(self.records) if key in one), None)


def read_run(folder: Path, status: Status) -> SweptRun:
    """Read a run; a file that cannot be read adds a note and counts as missing."""
    notes: list[str] = []

    def read(name: str, reader: Callable[[Path], Content]) -> Content | None:
        try:
            return reader(folder / name) if (folder / name).exists() else None
        except UserError as error:
            notes.append(one_line(error))
            return None

    if status is Status.failed:
        failure = read(layout.FAILURE_FILE, lambda path: read_record(path, Failure))
        notes += map(one_line, failure["lines"] if failure else [])
    if status is Status.pruned:
        pruned = read(layout.PRUNED_FILE, lambda path: read_record(path, Pruned))
        if pruned:
            where = f"pruned at update {pruned['update']:,}"
            notes.append(f"{where}; validation loss of the best checkpoint: {pruned['loss']:.4f}")
    config = read(layout.CONFIG_FILE, lambda path: load_config(Config, path))
    corpus = read(layout.ENVIRONMENT_FILE, lambda _: corpus_of(folder))
    records = read(layout.METRICS_FILE, read_metrics) or []
    result = None
    if status is Status.complete:
        result = read(layout.RESULT_FILE, lambda _: read_result(folder))
    return SweptRun(
        name=folder.name,
        status=status,
        config=flattened(to_plain(config)) if config else {},
        records=records,
        result=result,
        corpus=corpus,
        hypotheses=read(layout.VALID_HYPOTHESES_FILE, read_lines) or [],
        parameters=read(layout.CONFIG_FILE, lambda _: _num_parameters(config, corpus)),
        notes=notes,
    )


def _num_parameters(config: Config | None, corpus: PreparedCorpus | None) -> int | None:
    if config is None or corpus is None:
        return None
    source, target = corpus.tokenizers()
    network = meta_model(config.model, source.vocabulary_size, target.vocabulary_size)
    return count_parameters(network)
