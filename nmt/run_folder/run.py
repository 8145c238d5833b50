"""A run folder, read from its files."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import file_inside, is_forbidden, is_plain_name, read_lines, read_record
from nmt.config import Config, flattened, from_file_values, load_values, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.run_folder.records import (
    Environment,
    Failure,
    Result,
    Status,
    TestSetRecord,
    parse_record,
    status_of,
)
from nmt.run_folder.stored_texts import StoredTexts, read_texts

Content = TypeVar("Content")


class _MissingFileError(UserError):
    """A run folder lacks a file."""


@dataclass(frozen=True)
class Run:
    """A run folder.

    A property reads its file when it is first used, and raises UserError if the file is missing or
    damaged, or leads out of the folder. The properties from `final` on raise nothing: what cannot
    be read counts as missing, and `notes` has the reason.

    Attributes:
        not_counted: why a complete run does not count in its sweep; empty if it does.
    """

    folder: Path
    not_counted: str = ""

    @property
    def name(self) -> str:
        """Name of the folder; in a sweep, these are the overrides that vary."""
        return self.folder.absolute().name

    @property
    def full_name(self) -> str:
        """Name in tables: that of the folder, in a sweep `<sweep>/<overrides>`."""
        return f"{self.sweep.name}/{self.name}" if self.sweep else self.name

    @property
    def sweep(self) -> Path | None:
        """Folder of the sweep that the run belongs to."""
        parent = self.folder.absolute().parent
        return parent if parent.parent.name == layout.SWEEPS_FOLDER else None

    @property
    def outputs(self) -> Path:
        """The output folder that contains the run."""
        return (self.sweep or self.folder.absolute()).parent.parent

    @cached_property
    def status(self) -> Status | None:
        """Status of the run; None if the folder is not that of a run."""
        return status_of(self.folder)

    @property
    def has_begun(self) -> bool:
        """Whether the configuration is stored, so that the same command continues the run."""
        return (self.folder / layout.CONFIG_FILE).is_file()

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended and its model folder is written."""
        return (self.folder / layout.RESULT_FILE).is_file()

    @property
    def completed(self) -> float:
        """When the run was completed, in seconds since the epoch; infinity if it is not."""
        path = self.folder / layout.RESULT_FILE
        return path.stat().st_mtime if self.is_complete else math.inf

    @property
    def model(self) -> Path:
        """The model folder, which a complete run has."""
        return self.folder / layout.MODEL_FOLDER

    @cached_property
    def values(self) -> dict[str, Any]:
        """The configuration as nested plain values, whose keys are not checked."""
        return load_values(self._file(layout.CONFIG_FILE))

    @cached_property
    def config(self) -> Config:
        """The configuration."""
        path = self._file(layout.CONFIG_FILE)
        config: Config = from_file_values(Config, self.values, path)
        return config

    @property
    def bleu_tokenizer(self) -> str:
        """The tokeniser of BLEU; that of the target language for runs without the key."""
        return self.config.evaluation.tokenizer_of(self.config.corpus.target_language)

    @cached_property
    def environment(self) -> Environment:
        """Contents of `environment.json`."""
        path = self._file(layout.ENVIRONMENT_FILE)
        return read_record(path, Environment, "choose another run.name")

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """Records of `metrics.jsonl`, without the incomplete last line of a killed run."""
        path = self._file(layout.METRICS_FILE)
        records = []
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
            record = parse_record(line)
            if record is None:
                raise UserError(f"{path}: line {number} is not a JSON object with `update`")
            records.append(record)
        return records

    @cached_property
    def result(self) -> Result:
        """Contents of `result.json`, which a complete run has."""
        return read_record(self._file(layout.RESULT_FILE), Result)

    @property
    def corpus_name(self) -> str:
        """Name of the corpus folder: the corpus's name and the fingerprint."""
        name = self.environment["corpus"]
        if not is_plain_name(name):
            path = self.folder / layout.ENVIRONMENT_FILE
            raise UserError(f"{path}: corpus={name!r} is not a plain name")
        return name

    @cached_property
    def corpus(self) -> PreparedCorpus | None:
        """The corpus that the run was trained on; None if it no longer exists."""
        folder = self.outputs / layout.CORPORA_FOLDER / self.corpus_name
        return PreparedCorpus(folder) if folder.is_dir() else None

    @cached_property
    def valid_hypotheses(self) -> list[str]:
        """Translations of the validation set."""
        return read_lines(self._file(layout.VALID_HYPOTHESES_FILE))

    @cached_property
    def evaluations(self) -> dict[str, TestSetRecord]:
        """The stored scores of each test set, by name."""
        folder = self.folder / layout.EVALUATION_FOLDER
        found = sorted(path.parent.name for path in folder.glob(f"*/{layout.SCORES_FILE}"))
        names = filter(is_plain_name, found)  # without the folders that a kill has left
        paths = {n: self._file(layout.EVALUATION_FOLDER, n, layout.SCORES_FILE) for n in names}
        return {name: read_record(path, TestSetRecord) for name, path in paths.items()}

    def texts(self, test_set: str) -> StoredTexts:
        """Read the stored texts of a test set."""
        return read_texts(self.folder, test_set, self.bleu_tokenizer)

    @cached_property
    def num_parameters(self) -> int | None:
        """Number of parameters; None if the corpus no longer exists."""
        # Imported here, because it loads torch, and every command with Hydra loads this module.
        from nmt.model.build import count_parameters, meta_model  # noqa: PLC0415

        if self.corpus is None:
            return None
        sizes = (tokenizer.vocabulary_size for tokenizer in self.corpus.tokenizers())
        return count_parameters(meta_model(self.config.model, *sizes))

    @cached_property
    def final(self) -> Result | None:
        """The result of a complete run that counts."""
        is_counted = self.status is Status.complete and not self.not_counted
        return _readable(lambda: self.result) if is_counted else None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration by dotted keys."""
        config = _readable(lambda: self.config)
        return flattened(to_plain(config)) if config else {}

    @cached_property
    def known_corpus(self) -> PreparedCorpus | None:
        """The corpus."""
        return _readable(lambda: self.corpus)

    @cached_property
    def translations(self) -> list[str]:
        """The translations of the validation set, if there are any yet."""
        return _readable(lambda: self.valid_hypotheses) or []

    @cached_property
    def parameters(self) -> int | None:
        """Number of parameters."""
        return _readable(lambda: self.num_parameters)

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The metrics so far."""
        return _readable(lambda: self.metrics) or []

    @property
    def seed(self) -> str:
        """Seed of the training."""
        return str(self.settings.get("training.seed", ""))

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return self.final["updates"] if self.final else self._last("update") or 0

    @property
    def seconds(self) -> float | None:
        """Time of training and validation so far."""
        return self.final["training_seconds"] if self.final else self._last("train/seconds")

    @property
    def flops(self) -> float | None:
        """Floating-point operations of a complete training."""
        cost = self.final.get("cost") if self.final else None
        return cost["training_flops"] if cost else None

    def score(self, metric: str) -> float | None:
        """Return `bleu` or `loss` on validation, or `test_bleu` of the first test set.

        An incomplete run has the scores of its best validation so far, and no `test_bleu`.
        """
        if self.final is None:
            found = (one for one in self.records if isinstance(one.get("valid/bleu"), float | int))
            return max(found, key=lambda one: one["valid/bleu"], default={}).get(f"valid/{metric}")
        if metric == "test_bleu":
            tests = list(self.final["test_sets"].values())
            return tests[0]["bleu"]["score"] if tests else None
        return self.final["valid"]["loss" if metric == "loss" else "bleu"]

    @cached_property
    def notes(self) -> list[str]:
        """Last lines of a failed run, why files cannot be read, and why it is not counted."""
        notes: list[str] = []

        def failure() -> None:
            if self.status is Status.failed:
                lines = read_record(self._file(layout.FAILURE_FILE), Failure)["lines"]
                notes.extend(map(one_line, lines))

        reads: tuple[Callable[[], object], ...] = (
            failure,
            lambda: self.config,
            lambda: self.corpus,
            lambda: self.metrics,
            lambda: self.is_complete and self.result,
            lambda: self.valid_hypotheses,
            lambda: self.num_parameters,
        )
        for read in reads:
            try:
                read()
            except _MissingFileError:
                continue
            except UserError as error:
                notes.append(one_line(error))
        return list(dict.fromkeys([*notes, *filter(None, [self.not_counted])]))

    def _file(self, *names: str) -> Path:
        path = self.folder.joinpath(*names)
        if not (os.path.lexists(path) or is_forbidden(path)):
            raise _MissingFileError(f"{path}: no such file; {self.folder} is incomplete")
        return file_inside(self.folder, *names)

    def _last(self, key: str) -> Any:
        return next((one[key] for one in reversed(self.records) if key in one), None)


def _readable(read: Callable[[], Content]) -> Content | None:
    """Return what `read` returns; None if it raises UserError."""
    try:
        return read()
    except UserError:
        return None
