"""Where sentence pairs come from: a folder, the hub, the phrasebook, a package.

A source knows its splits (`train`, `valid`, then test sets), yields their raw pairs one by one, so
that a corpus need not fit into memory, and has an identity: plain values that change when, and only
when, its pairs may change.
"""

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from data_prep.bible import BibleSource
from data_prep.clean import Pair
from data_prep.folder_source import FolderSource
from data_prep.manifest import FACTS_FILE, FactsCache
from data_prep.phrasebook_source import PhrasebookSource
from data_prep.protocol import TRAIN, VALID, Source, zip_pairs
from nmt.config import CorpusConfig, CorpusSource
from nmt.disk_fault import fault_number
from nmt.errors import UserError

HUB_BATCH_ROWS = 1_000


def open_source(config: CorpusConfig, cache: Path, say: Callable[[str], None]) -> Source:
    """The source that `corpus.source` names.

    Args:
        config: the corpus.
        cache: a folder for downloads and for remembered hashes.
        say: told what takes long.

    Raises:
        UserError: the source lacks a split, its files do not fit together or cannot be read.
    """
    match config.source:
        case CorpusSource.folder:
            return FolderSource(config, FactsCache(cache / FACTS_FILE))
        case CorpusSource.hub:
            return HubSource(config, FactsCache(cache / FACTS_FILE), say)
        case CorpusSource.bible:
            return BibleSource(
                config.source_language, config.target_language, cache / ".downloads", say
            )
        case CorpusSource.phrasebook:
            return PhrasebookSource(config, say)


class HubSource:
    """A data set of the hub, or a local folder of parquet files with the same columns.

    From the hub, the whole split is downloaded once into the hub's own cache and memory-mapped
    there; local parquet files are streamed.
    """

    def __init__(self, config: CorpusConfig, facts: FactsCache, say: Callable[[str], None]) -> None:
        self._config = config
        self._facts = facts
        self._say = say
        self._loaded: dict[str, Any] = {}
        for split in (TRAIN, VALID):
            if split not in config.hub_splits:
                raise UserError(
                    f"corpus.hub_splits lacks {split}: map it to the data set's own split, for"
                    " example +corpus.hub_splits.valid=validation"
                )
        if "{language}" not in config.hub_column:
            raise UserError(
                f"corpus.hub_column={config.hub_column} lacks {{language}}: write for example"
                " translation.{language} or {language}"
            )
        if not config.path and not config.hub_dataset:
            raise UserError(
                "corpus.hub_dataset is empty: name a data set of the hub, or set corpus.path to a"
                " folder of parquet files"
            )
        if config.path:
            self._files = {split: self._local_files(split) for split in self.splits()}

    def _local_files(self, split: str) -> list[Path]:
        """The files of a split, laid out as the hub lays them out, in order."""
        folder, name = Path(self._config.path), self._config.hub_splits[split]
        if not folder.is_dir():
            raise UserError(f"corpus.path={folder} is not a folder; name one of parquet files")
        places = [folder / self._config.hub_subset, folder / "data", folder]
        for place in places:
            for pattern in (f"{name}-*.parquet", f"{name}.parquet", f"{name}/*.parquet"):
                if files := sorted(place.glob(pattern)):
                    return files
        raise UserError(
            f"corpus.path={folder} holds no {name}-*.parquet and no {name}.parquet, which"
            f" corpus.hub_splits.{split}={name} asks for; files of text are read with corpus=folder"
        )

    def splits(self) -> list[str]:
        """The keys of `corpus.hub_splits`, `train` and `valid` first."""
        return [TRAIN, VALID, *sorted(self._config.hub_splits.keys() - {TRAIN, VALID})]

    def identity(self) -> dict[str, Any]:
        """Local: hashes of the files. The hub: the data set, its subset and revision.

        Without a revision the hub's newest is taken once, and not asked for again.
        """
        config = self._config
        identity: dict[str, Any] = {
            "source": "hub",
            "column": config.hub_column,
            "splits": dict(config.hub_splits),
        }
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
        """A `Dataset` or an `IterableDataset` of the split."""
        if split not in self._loaded:
            self._loaded[split] = self._load(split)
        return self._loaded[split]

    def _load(self, split: str) -> Any:
        # Here, not above: it takes a second, and most commands never need it.
        import datasets  # noqa: PLC0415

        config = self._config
        # Its retries tell of themselves line by line; ours is one sentence at the end.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        datasets.logging.set_verbosity_error()
        if not config.path:
            self._say(
                f"fetching {split} of {self._place()} from the hub, or finding it in its cache"
            )
        try:
            if config.path:
                files = {split: [str(path) for path in self._files[split]]}
                return datasets.load_dataset(
                    "parquet", data_files=files, split=split, streaming=True
                )
            return datasets.load_dataset(
                config.hub_dataset,
                config.hub_subset or None,
                split=config.hub_splits[split],
                revision=config.hub_revision or None,
            )
        except Exception as error:  # network, hub, cache and format each raise kinds of their own
            raise self._failure(error) from error

    def _place(self) -> str:
        return "/".join(filter(None, (self._config.hub_dataset, self._config.hub_subset)))

    def _failure(self, error: Exception) -> UserError:
        reason = (
            f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        )
        if self._config.path:
            return UserError(f"corpus.path={self._config.path} cannot be read ({reason})")
        number = fault_number(error)
        if number not in (None, errno.ENOENT):
            return UserError(
                f"corpus.hub_dataset={self._place()} cannot be kept in the hub's cache"
                f" ({os.strerror(number)}); make room in it, or set HF_HOME to another folder"
            )
        return UserError(
            f"corpus.hub_dataset={self._place()} cannot be fetched from the hub ({reason}); check"
            " the network and the name, or set corpus.path to a folder that holds its parquet files"
        )

    def num_pairs(self, split: str) -> int | None:
        """Rows, where the data set is mapped and not streamed."""
        return None if self._config.path else len(self._rows(split))

    def pairs(self, split: str) -> Iterator[Pair]:
        """Rows of the split, read in batches."""
        batches = self._rows(split).iter(batch_size=HUB_BATCH_ROWS)
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:  # a damaged file shows only when it is read
                raise self._failure(error) from error
            if batch is None:
                return
            sources = self._column(batch, self._config.source_language)
            targets = self._column(batch, self._config.target_language)
            yield from zip_pairs(sources, targets)

    def _column(self, batch: dict[str, list[Any]], language: str) -> list[str]:
        name, _, key = self._config.hub_column.format(language=language).partition(".")
        values = batch.get(name)
        if values is None:
            raise self._no_column(name, language, sorted(batch))
        if key:
            if not all(isinstance(value, dict) and key in value for value in values):
                present = sorted(values[0]) if isinstance(values[0], dict) else []
                raise self._no_column(f"{name}.{key}", language, [f"{name}.{k}" for k in present])
            values = [value[key] for value in values]
        # A missing text is an empty one: cleaning drops it from train and counts it.
        return ["" if value is None else str(value) for value in values]

    def _no_column(self, name: str, language: str, present: list[str]) -> UserError:
        return UserError(
            f"corpus.hub_column={self._config.hub_column} asks for {name} to read {language}, and"
            f" the rows have {', '.join(present) or 'no such dictionary'}"
        )

    def more_references(self, split: str) -> list[list[str]]:
        """The hub has one a sentence."""
        del split
        return []

    def annotations(self, split: str) -> None:
        """The hub has none."""
