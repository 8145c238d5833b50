"""Write cleaned text to disk, with statistics and examples of dropped pairs.

The folder contains `train-00000.<language>` and so on (each part becomes a shard), the text of
`valid` and the test sets as `text/<split>.<language>`, `text/<split>.annotations.jsonl` if the
source has annotations, and `cleaning.json`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from data_prep.clean import Pair, normalise, normalise_pair
from data_prep.local_sources import AlignedFiles
from data_prep.manifest import describe_outputs
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, Source
from data_prep.train_cleaner import CleaningSummary, TrainCleaner
from nmt.base.errors import UserError
from nmt.base.files import read_record, to_lines, write_json, write_lines, writing
from nmt.config import CorpusConfig

CLEANING_FILE = "cleaning.json"

PAIRS_PER_PART = 250_000

_CHUNK_PAIRS = 10_000

_OTHER_BYTES = 200_000
"""About the size of `valid`, the test sets and `cleaning.json`, for messages about a full disk."""


@dataclass(frozen=True)
class CleanedText:
    """A complete folder of cleaned text.

    Attributes:
        folder: the folder.
        languages: source and target.
    """

    folder: Path
    languages: tuple[str, str]

    def summary(self) -> CleaningSummary:
        """The stored result of cleaning.

        Raises:
            UserError: the file is missing or damaged.
        """
        return read_record(self.folder / CLEANING_FILE, CleaningSummary)

    def part_path(self, part: int, language: str) -> Path:
        """One language of one part of the training text."""
        return self.folder / f"{TRAIN}-{part:05d}.{language}"

    def text_folder(self) -> Path:
        """Folder of the text of `valid` and the test sets."""
        return self.folder / "text"


class _PartWriter:
    """Appends pairs to numbered parts of at most `pairs_per_part` pairs."""

    def __init__(self, text: CleanedText, pairs_per_part: int) -> None:
        self._text = text
        self._pairs_per_part = pairs_per_part
        self.parts: list[int] = []

    def write(self, pairs: list[Pair]) -> None:
        """Write pairs; the files are closed afterwards, so that disk errors are raised here."""
        while pairs:
            if not self.parts or self.parts[-1] == self._pairs_per_part:
                self.parts.append(0)
            number = self._pairs_per_part - self.parts[-1]
            added, pairs = pairs[:number], pairs[number:]
            for language, lines in zip(self._text.languages, zip(*added, strict=True), strict=True):
                path = self._text.part_path(len(self.parts) - 1, language)
                with path.open("a", encoding="utf-8", newline="\n") as out:
                    out.write(to_lines(lines))
            self.parts[-1] += len(added)


def write_cleaned_text(
    source: Source,
    config: CorpusConfig,
    folder: Path,
    reporter: Reporter,
    pairs_per_part: int = PAIRS_PER_PART,
    more: AlignedFiles | None = None,
) -> CleaningSummary:
    """Clean a source, and additional training pairs, into an empty folder.

    Raises:
        UserError: the source cannot be read, or no training pair passes the rules.
    """
    text = CleanedText(folder, (config.source_language, config.target_language))
    summary = _write_train(source, config, text, reporter, pairs_per_part, more)
    summary.num_pairs[TRAIN] = sum(summary.parts)
    size = sum(path.stat().st_size for path in folder.iterdir())
    with writing(folder, size + _OTHER_BYTES):
        text.text_folder().mkdir()
        for split in source.splits():
            if split != TRAIN:
                summary.num_pairs[split] = _write_text(source, split, text)
        summary.outputs = describe_outputs(folder)
        write_json(folder / CLEANING_FILE, asdict(summary))
    return summary


def _write_train(
    source: Source,
    config: CorpusConfig,
    text: CleanedText,
    reporter: Reporter,
    pairs_per_part: int,
    more: AlignedFiles | None,
) -> CleaningSummary:
    total = source.num_pairs(TRAIN)
    limit = config.max_train_pairs or None
    if total is not None:
        total = min(total, limit or total) + (more.num_pairs if more else 0)
    own: Iterable[Pair] = islice(source.pairs(TRAIN), limit)
    streams = [(own, config.copies), *([(more.pairs(), 1)] if more else [])]
    cleaner = TrainCleaner(config.cleaning, text.languages)
    writer = _PartWriter(text, pairs_per_part)
    with reporter.stage("Cleaning", total) as advance:
        for pairs, copies in streams:
            for chunk in _chunks(pairs):
                # Copies are made after cleaning, so the duplicate rule does not drop them.
                kept = cleaner.clean(chunk) * copies
                train_bytes = None if total is None else cleaner.estimate_bytes(total)
                with writing(text.folder, train_bytes and train_bytes * 11 // 10 + _OTHER_BYTES):
                    writer.write(kept)
                advance(len(chunk))
    summary = cleaner.summary()
    summary.parts = writer.parts
    if not summary.num_kept:
        raise UserError(_explain_empty_result(config, summary))
    return summary


def _explain_empty_result(config: CorpusConfig, summary: CleaningSummary) -> str:
    if not summary.num_read:
        return f"corpus.name={config.name} has no training pairs: the corpus is empty"
    counts = ", ".join(f"{rule} {count}" for rule, count in summary.dropped.items() if count)
    return (
        f"corpus.name={config.name}: cleaning dropped all {summary.num_read} training pairs"
        f" ({counts}); relax the rules of corpus.cleaning or correct the text"
    )


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK_PAIRS)):
        yield chunk


def _write_text(source: Source, split: str, text: CleanedText) -> int:
    """Write `valid` or a test set, normalised, line by line; return the number of pairs."""
    paths = [text.text_folder() / f"{split}.{language}" for language in text.languages]
    pairs = [normalise_pair(*raw) for raw in source.pairs(split)]
    if not pairs:
        raise UserError(f"the split {split} has no pairs; add some or remove the split")
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        write_lines(path, lines)
    for number, references in enumerate(source.more_references(split), start=1):
        assert len(references) == len(pairs)
        path = paths[1].with_name(f"{paths[1].name}.{number}")
        write_lines(path, map(normalise, references))
    annotations = source.annotations(split)
    if annotations is not None:
        assert len(annotations) == len(pairs)
        records = (json.dumps(asdict(annotation), ensure_ascii=False) for annotation in annotations)
        write_lines(text.text_folder() / f"{split}.annotations.jsonl", records)
    return len(pairs)
