"""Sentence pairs as ids on disk: memory-mapped Arrow shards, written here and opened here."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nmt.errors import UserError
from nmt.files import atomic_path, read_json, read_lines

_SCHEMA = pa.schema([("source", pa.list_(pa.int32())), ("target", pa.list_(pa.int32()))])

Ids = list[int]

MANIFEST_FILE = "manifest.json"


def more_reference_paths(first: Path) -> list[Path]:
    """Further references beside `FILE`: `FILE.1`, `FILE.2` and so on, as far as they go.

    Raises:
        UserError: a number is left out.
    """
    pattern = re.compile(re.escape(first.name) + r"\.([1-9][0-9]*)")
    siblings = first.parent.iterdir() if first.parent.is_dir() else ()
    numbers = {int(found[1]) for path in siblings if (found := pattern.fullmatch(path.name))}
    missing = next((n for n in range(1, len(numbers) + 1) if n not in numbers), None)
    if missing is not None:
        raise UserError(
            f"{first}.{max(numbers)} is there and {first}.{missing} is not: number further"
            " references from 1 on, without a gap"
        )
    return [first.with_name(f"{first.name}.{number}") for number in sorted(numbers)]


def shard_name(split: str, index: int) -> str:
    """File name of a shard."""
    return f"{split}-{index:05d}.arrow"


def write_shard(path: Path, pairs: Iterable[tuple[Ids, Ids]], rows_per_batch: int = 65_536) -> int:
    """Write pairs of ids (no BOS, no EOS) as one Arrow file, atomically; returns their number."""
    num_pairs = 0
    with (
        atomic_path(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        for rows in _grouped(pairs, rows_per_batch):
            sources, targets = zip(*rows, strict=True)
            writer.write_batch(pa.record_batch([list(sources), list(targets)], schema=_SCHEMA))
            num_pairs += len(rows)
    return num_pairs


def _grouped(pairs: Iterable[tuple[Ids, Ids]], size: int) -> Iterator[list[tuple[Ids, Ids]]]:
    iterator = iter(pairs)
    while group := list(islice(iterator, size)):
        yield group


@dataclass(frozen=True)
class _Side:
    """One language of one record batch: ids of all its sentences end to end."""

    values: np.ndarray
    """(ids in the batch,) int32, a view of the mapped file."""
    offsets: np.ndarray
    """(sentences + 1,) int32: sentence i is values[offsets[i] : offsets[i + 1]]."""


class ParallelCorpus:
    """A split of a prepared corpus: pairs of ids, read straight from the mapped files.

    Attributes:
        source_lengths: (pairs,) int32 tokens of each source, EOS counted.
        target_lengths: (pairs,) int32 tokens of each target, EOS counted.
    """

    def __init__(self, shards: list[Path]) -> None:
        self._batches: list[tuple[_Side, _Side]] = []
        starts = [0]
        for path in shards:
            for batch in _read_batches(path):
                self._batches.append((_side(batch.column(0)), _side(batch.column(1))))
                starts.append(starts[-1] + batch.num_rows)
        self._starts = np.array(starts, dtype=np.int64)
        self.source_lengths = self._lengths(0)
        self.target_lengths = self._lengths(1)

    @classmethod
    def open(cls, folder: Path, split: str) -> "ParallelCorpus":
        """Map all shards of a split.

        Raises:
            UserError: the folder holds no shard of that split, or a shard cannot be read.
        """
        shards = sorted(folder.glob(f"{split}-[0-9][0-9][0-9][0-9][0-9].arrow"))
        if not shards:
            raise UserError(f"{folder}: holds no {split}-*.arrow; prepare the corpus again")
        return cls(shards)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def pair(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Source ids and target ids of one pair, (length - 1,) int32 each: without BOS and EOS."""
        number = int(np.searchsorted(self._starts, index, side="right")) - 1
        row = index - int(self._starts[number])
        source, target = self._batches[number]
        return (
            source.values[source.offsets[row] : source.offsets[row + 1]],
            target.values[target.offsets[row] : target.offsets[row + 1]],
        )

    def _lengths(self, side: int) -> np.ndarray:
        parts = [np.diff(batch[side].offsets) + 1 for batch in self._batches]
        return np.concatenate(parts).astype(np.int32) if parts else np.zeros(0, dtype=np.int32)


def _read_batches(path: Path) -> list[pa.RecordBatch]:
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path), "r"))
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: is not a readable shard ({error}); prepare again") from None


def _side(column: pa.ListArray) -> _Side:
    return _Side(column.values.to_numpy(zero_copy_only=True), column.offsets.to_numpy())


class PreparedCorpus:
    """The folder that preparation leaves: shards, tokenizers, and the text of valid and test sets.

    Args:
        folder: `outputs/corpora/<name>-<fingerprint>`.

    Attributes:
        source_language: code of the language translated from.
        target_language: code of the language translated into.
        source_tokenizer: path of the source's sentencepiece model.
        target_tokenizer: path of the target's; the same file when the vocabulary is joint.
        test_splits: names of the test sets, `test` first if there is one, then by name.
        leakage: by split, how much of it the training text holds; empty where that was not counted.

    Raises:
        UserError: the folder is not a finished corpus.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / MANIFEST_FILE
        manifest = read_json(path)
        self.folder = folder
        try:
            self.source_language, self.target_language = manifest["direction"].split("-")
            self.source_tokenizer = folder / manifest["source_tokenizer"]
            self.target_tokenizer = folder / manifest["target_tokenizer"]
            names = sorted(manifest["test_splits"], key=lambda name: (name != "test", name))
            self.leakage: dict[str, dict[str, Any]] = dict(manifest.get("leakage", {}))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{path}: is not the manifest of a prepared corpus") from None
        self.test_splits: list[str] = names

    def train(self) -> ParallelCorpus:
        """The training pairs."""
        return ParallelCorpus.open(self.folder, "train")

    def text_path(self, split: str, language: str) -> Path:
        """The text of valid or of a test set in one language."""
        return self.folder / "text" / f"{split}.{language}"

    def more_references(self, split: str) -> list[list[str]]:
        """References of a test set beyond the first: `<split>.<target language>.1` and so on."""
        paths = more_reference_paths(self.text_path(split, self.target_language))
        return [read_lines(path) for path in paths]

    def annotations_path(self, split: str) -> Path:
        """What the sentences of a test set show; only some corpora have it."""
        return self.folder / "text" / f"{split}.annotations.jsonl"

    def read_text(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target lines of valid or of a test set."""
        return (
            read_lines(self.text_path(split, self.source_language)),
            read_lines(self.text_path(split, self.target_language)),
        )
