"""The prepared corpus: training ids in memory-mapped Arrow shards, tokenizers, other splits."""

import os
import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NotRequired

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, NonNegativeInt, with_config
from typing_extensions import TypedDict

from nmt.base.errors import UserError
from nmt.base.files import atomic_path, file_inside, is_plain_name, read_lines, read_record
from nmt.base.layout import MANIFEST_FILE
from nmt.config import MixingConfig, are_languages
from nmt.data.mixing import Mixing
from nmt.tokenizer import Tokenizer

_SCHEMA = pa.schema([("source", pa.list_(pa.int32())), ("target", pa.list_(pa.int32()))])

Ids = list[int]

_TEXT_FOLDER = "text"


def more_reference_paths(first: Path) -> list[Path]:
    """Return the further references FILE.1, FILE.2, … of FILE; UserError if a number is missing."""
    pattern = re.compile(re.escape(first.name) + r"\.([1-9][0-9]*)")
    siblings = first.parent.iterdir() if first.parent.is_dir() else ()
    numbers = {int(found[1]) for path in siblings if (found := pattern.fullmatch(path.name))}
    missing = next((n for n in range(1, len(numbers) + 1) if n not in numbers), None)
    if missing is not None:
        raise UserError(
            f"{first}.{max(numbers)} exists but {first}.{missing} does not; number further"
            " references from 1, without gaps"
        )
    return [first.with_name(f"{first.name}.{number}") for number in sorted(numbers)]


def shard_name(split: str, index: int) -> str:
    """Return the file name of a shard."""
    return f"{split}-{index:05d}.arrow"


def write_shard(path: Path, pairs: Iterable[tuple[Ids, Ids]], rows_per_batch: int = 65_536) -> int:
    """Write pairs of ids (without BOS and EOS) as one Arrow file; return their number."""
    num_pairs = 0
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        iterator = iter(pairs)
        while rows := list(islice(iterator, rows_per_batch)):
            sources, targets = zip(*rows, strict=True)
            writer.write_batch(pa.record_batch([list(sources), list(targets)], schema=_SCHEMA))
            num_pairs += len(rows)
    return num_pairs


class ParallelCorpus:
    """Pairs of ids of one split, read from memory-mapped files.

    Raises:
        UserError: the folder has no shard of that split, or a shard cannot be read.
    """

    def __init__(self, folder: Path, split: str) -> None:
        shards = sorted(folder.glob(f"{split}-[0-9][0-9][0-9][0-9][0-9].arrow"))
        if not shards:
            raise UserError(f"{folder}: has no {split}-*.arrow; prepare the corpus again")
        # For each record batch and side: the ids of all sentences, and where each sentence starts.
        self._batches: list[list[tuple[np.ndarray, np.ndarray]]] = []
        starts = [0]
        for shard in shards:
            for batch in _read_batches(file_inside(folder, shard.name)):
                self._batches.append(
                    [(column.values.to_numpy(), column.offsets.to_numpy()) for column in batch]
                )
                starts.append(starts[-1] + batch.num_rows)
        self._starts = np.array(starts, dtype=np.int64)
        # (pairs,) int32 tokens of each sentence, including EOS.
        self.source_lengths, self.target_lengths = self._lengths(0), self._lengths(1)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the source and target ids of a pair, int32, without BOS and EOS."""
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        row = index - int(self._starts[number])
        source, target = (
            ids[offsets[row] : offsets[row + 1]] for ids, offsets in self._batches[number]
        )
        return source, target

    def _lengths(self, side: int) -> np.ndarray:
        parts = [np.diff(batch[side][1]) + 1 for batch in self._batches]
        return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, dtype=np.int32)


def _read_batches(path: Path) -> list[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path), "r"))
        if reader.schema != _SCHEMA:
            raise UserError(f"{path}: has other columns; prepare the corpus again")
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: is damaged ({error}); prepare the corpus again") from None


class Leakage(TypedDict):
    """Number of sentences of a split, and of those that the training text contains.

    `data_prep.leakage` defines `exact` and `near`.
    """

    sentences: int
    source: dict[Literal["exact", "near"], int]
    target: dict[Literal["exact", "near"], int]
    pairs: dict[Literal["exact"], int]


@with_config(ConfigDict(extra="allow"))
class Cleaning(TypedDict):
    """Number of training pairs before and after cleaning."""

    num_read: int
    num_kept: int


@with_config(ConfigDict(extra="allow"))
class Manifest(TypedDict):
    """`manifest.json` of a corpus."""

    direction: str
    source_tokenizer: str
    target_tokenizer: str
    test_splits: list[str]
    leakage: NotRequired[dict[str, Leakage]]
    num_pairs: NotRequired[dict[str, int]]
    sources: NotRequired[dict[str, NonNegativeInt]]
    tokens: NotRequired[dict[str, dict[str, int]]]
    cleaning: NotRequired[Cleaning]


class PreparedCorpus:
    """The folder `outputs/corpora/<name>-<fingerprint>`, which data preparation writes.

    Raises:
        UserError: the folder has no valid manifest.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / MANIFEST_FILE
        manifest = read_record(path, Manifest, "prepare the corpus again")
        languages = manifest["direction"].split("-")
        if not are_languages(languages):
            raise UserError(
                f"{path}: direction={manifest['direction']!r} is not two language codes"
            )
        for name in manifest["test_splits"]:
            if not is_plain_name(name):
                raise UserError(f"{path}: test_splits: {name!r} is not a plain name")
        self.folder = folder
        self.source_language, self.target_language = languages
        # Names of the test sets: `test` first, then by name.
        self.test_splits = sorted(manifest["test_splits"], key=lambda name: (name != "test", name))
        # A `Leakage` for `valid` and each test set; empty if not counted.
        self.leakage: dict[str, Any] = manifest.get("leakage", {})
        self.manifest = manifest

    @property
    def name(self) -> str:
        """Name of the corpus: that of the folder without the hyphen and the fingerprint."""
        return self.folder.name.rpartition("-")[0]

    @property
    def source_tokenizer(self) -> Path:
        """Path of the sentencepiece model of the source language."""
        return file_inside(self.folder, self.manifest["source_tokenizer"])

    @property
    def target_tokenizer(self) -> Path:
        """Path of the model of the target language; the same path if the vocabulary is joint."""
        return file_inside(self.folder, self.manifest["target_tokenizer"])

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Load the tokenizers of source and target; UserError if one is missing or damaged."""
        return Tokenizer(self.source_tokenizer), Tokenizer(self.target_tokenizer)

    def train(self) -> ParallelCorpus:
        """Open the training pairs.

        Raises:
            UserError: the pairs are missing or damaged, or the manifest states another number.
        """
        pairs = ParallelCorpus(self.folder, "train")
        sources = self.manifest.get("sources")
        if sources is not None and sum(sources.values()) != len(pairs):
            raise UserError(
                f"{self.folder / MANIFEST_FILE}: sources have {sum(sources.values()):,} pairs, but"
                f" the training text has {len(pairs):,}; prepare the corpus again"
            )
        return pairs

    def mixing(self, config: MixingConfig) -> Mixing | None:
        """Return how the sources are mixed; None if the manifest lists no sources."""
        sources = self.manifest.get("sources")
        return Mixing(config, sources) if sources else None

    def text_path(self, split: str, language: str) -> Path:
        """Return the path of the text of `valid` or a test set in one language."""
        return file_inside(self.folder, _TEXT_FOLDER, f"{split}.{language}")

    def reference_paths(self, split: str) -> list[Path]:
        """Return the reference files: `<split>.<target language>`, `….1`, and so on."""
        first = self.text_path(split, self.target_language)
        more = more_reference_paths(first)
        return [first, *(file_inside(self.folder, _TEXT_FOLDER, path.name) for path in more)]

    def annotations_path(self, split: str) -> Path | None:
        """Return the path of the annotations of a test set; None if it has none."""
        names = _TEXT_FOLDER, f"{split}.annotations.jsonl"
        is_there = os.path.lexists(self.folder.joinpath(*names))
        return file_inside(self.folder, *names) if is_there else None

    def read_text(self, split: str) -> tuple[list[str], list[str]]:
        """Read the source and target lines of `valid` or a test set."""
        return (
            read_lines(self.text_path(split, self.source_language)),
            read_lines(self.text_path(split, self.target_language)),
        )
