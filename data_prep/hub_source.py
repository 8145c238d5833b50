"""Sentence pairs from a data set of the Hugging Face hub, or from local parquet files."""

import errno
import logging
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from data_prep.clean import Pair, ScoredPair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, VALID, Source
from nmt.base.errors import UserError, disk_errno, first_line
from nmt.config import CorpusConfig

_BATCH_ROWS = 1_000


def _is_pattern(column: str) -> bool:
    """Return whether `column` is a format string with `{language}` and no other field."""
    try:
        return column.format(language="en") != column.format(language="de")
    except (LookupError, ValueError, AttributeError, TypeError):
        return False


class HubSource(Source):
    """A data set of the hub, or a local folder of parquet files with the same columns.

    A split of the hub is downloaded once into the hub's own cache and memory-mapped; local parquet
    files are streamed.
    """

    def __init__(
        self, config: CorpusConfig, facts: FactsCache, report: Callable[[str], None]
    ) -> None:
        self._config = config
        self._facts = facts
        self._report = report
        self._loaded: dict[str, Any] = {}
        if TRAIN not in config.hub_splits:
            raise UserError(
                f"corpus.hub_splits lacks {TRAIN}: map it to a split of the data set, for example"
                " corpus.hub_splits.train=train"
            )
        if not _is_pattern(config.hub_column):
            raise UserError(
                f"corpus.hub_column={config.hub_column} lacks {{language}} or has other braces; use"
                " for example translation.{language} or {language}"
            )
        if not config.path and not config.hub_dataset:
            raise UserError(
                "corpus.hub_dataset is empty: name a data set of the hub, or set corpus.path to a"
                " folder of parquet files"
            )
        if not config.path and Path(config.hub_dataset).exists():
            raise UserError(
                f"corpus.hub_dataset={config.hub_dataset} is also a file or folder here, which"
                " `datasets` would read instead; run the command in another folder"
            )
        if config.path:
            self._files = {split: self._local_files(split) for split in self.splits()}

    def _local_files(self, split: str) -> list[Path]:
        """The parquet files of a split, in order; they have to be named like those of the hub."""
        folder, name = Path(self._config.path), self._config.hub_splits[split]
        if not folder.is_dir():
            raise UserError(f"corpus.path={folder} is not a folder; name one with parquet files")
        patterns = f"{name}-*.parquet", f"{name}.parquet", f"{name}/*.parquet"
        for parent in (folder / self._config.hub_subset, folder / "data", folder):
            for pattern in patterns:
                if files := sorted(parent.glob(pattern)):
                    return files
        raise UserError(
            f"corpus.path={folder} contains no {', '.join(patterns)}, which"
            f" corpus.hub_splits.{split}={name} requires; to read text files, set corpus=folder"
        )

    def splits(self) -> list[str]:
        """The keys of `corpus.hub_splits`: `train`, `valid` if there is one, then test sets."""
        names = self._config.hub_splits
        first = [name for name in (TRAIN, VALID) if name in names]
        return [*first, *sorted(names.keys() - set(first))]

    def identity(self) -> dict[str, Any]:
        """Columns and splits, with hashes of local files or the names and revision of a data set.

        Without a revision, a newer version of the data set does not change the identity, so text
        that was cleaned before is used again.
        """
        config = self._config
        identity: dict[str, Any] = {
            "source": "hub",
            "column": config.hub_column,
            "splits": dict(config.hub_splits),
        }
        if config.hub_score:
            identity["score"] = config.hub_score
        if config.path:
            return identity | {
                "files": {
                    split: [self._facts.facts(path).sha256 for path in files]
                    for split, files in self._files.items()
                }
            }
        return identity | {
            "dataset": config.hub_dataset,
            "subset": config.hub_subset,
            "revision": config.hub_revision,
        }

    def _rows(self, split: str) -> Any:
        """The split as a `Dataset` or an `IterableDataset`, loaded once."""
        if split not in self._loaded:
            self._loaded[split] = self._load(split)
        return self._loaded[split]

    def _load(self, split: str) -> Any:
        # The import takes a second, and most commands do not need it.
        import datasets  # noqa: PLC0415

        config = self._config
        # The library logs each retry; one UserError at the end is enough.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        datasets.logging.set_verbosity_error()
        try:
            if config.path:
                files = {split: [str(path) for path in self._files[split]]}
                return datasets.load_dataset(
                    "parquet", data_files=files, split=split, streaming=True
                )
            self._report(f"loading {split} of {self._data_set()} from the hub or its cache")
            return datasets.load_dataset(
                config.hub_dataset,
                config.hub_subset or None,
                split=config.hub_splits[split],
                revision=config.hub_revision or None,
            )
        except Exception as error:  # network, hub, cache and format raise different types
            raise self._failure(error) from error

    def _data_set(self) -> str:
        return "/".join(filter(None, (self._config.hub_dataset, self._config.hub_subset)))

    def _failure(self, error: Exception) -> UserError:
        """Return the UserError that explains an `error` of the library `datasets`."""
        reason = f"{type(error).__name__}: {first_line(error)}"
        if self._config.path:
            return UserError(
                f"corpus.path={self._config.path} cannot be read ({reason}); replace the damaged"
                " parquet file"
            )
        number = disk_errno(error)
        if number not in (None, errno.ENOENT):  # ENOENT: the data set was not found
            return UserError(
                f"corpus.hub_dataset={self._data_set()} cannot be written to the hub's cache"
                f" ({os.strerror(number)}); free space there, or set HF_HOME to another folder"
            )
        return UserError(
            f"corpus.hub_dataset={self._data_set()} cannot be loaded from the hub ({reason}); check"
            " the network and the name, or set corpus.path to a folder with its parquet files"
        )

    def num_pairs(self, split: str) -> int | None:
        """Number of rows of a data set of the hub; None for local files, which are streamed."""
        return None if self._config.path else len(self._rows(split))

    def pairs(self, split: str) -> Iterator[Pair]:
        """Rows of the split, read in batches."""
        batches = self._rows(split).iter(batch_size=_BATCH_ROWS)
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # a damaged file fails only when it is read
                raise self._failure(error) from error
            if batch is None:
                return
            sources = self._column(batch, self._config.source_language)
            targets = self._column(batch, self._config.target_language)
            if not self._config.hub_score:
                yield from map(Pair, sources, targets)
            else:
                yield from map(ScoredPair.of, sources, targets, self._scores(batch))

    def _column(self, batch: dict[str, list[Any]], language: str) -> list[str]:
        name, _, key = self._config.hub_column.format(language=language).partition(".")
        values = batch.get(name)
        if values is None:
            raise self._no_column(name, language, sorted(batch))
        if key:
            lacking = [value for value in values if not (isinstance(value, dict) and key in value)]
            if lacking:
                present = sorted(lacking[0]) if isinstance(lacking[0], dict) else []
                raise self._no_column(f"{name}.{key}", language, [f"{name}.{k}" for k in present])
            values = [value[key] for value in values]
        # Cleaning drops empty texts from the training pairs and counts them.
        return ["" if value is None else str(value) for value in values]

    def _scores(self, batch: dict[str, list[Any]]) -> list[float]:
        name = self._config.hub_score
        values = batch.get(name)
        if values is None:
            raise UserError(f"corpus.hub_score={name}: the rows have only {', '.join(batch)}")
        for value in values:
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise UserError(f"corpus.hub_score={name}: {value!r} is not a finite number")
        return [float(value) for value in values]

    def _no_column(self, name: str, language: str, present: list[str]) -> UserError:
        return UserError(
            f"corpus.hub_column={self._config.hub_column} reads {language} from {name}, but the"
            f" rows have {', '.join(present) or 'no dictionary there'}"
        )
