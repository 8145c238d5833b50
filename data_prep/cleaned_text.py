"""Write cleaned text to disk, with statistics and examples of dropped pairs.

The folder contains `train-00000.<language>` and so on (each part becomes a shard), the text of
`valid` and the test sets as `text/<split>.<language>`, `text/<split>.annotations.jsonl` if the
source has annotations, and `cleaning.json`.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

from data_prep.clean import Pair, normalise, normalise_pair
from data_prep.clean_shard import SHARD_PAIRS, CleanShard, ShardJob, clean_shard, shard_file
from data_prep.local_sources import AlignedFiles
from data_prep.manifest import describe_outputs
from data_prep.merge_shards import CleaningSummary, PartWriter, ShardMerger
from data_prep.processes import map_in_processes
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, Source
from nmt.base.errors import UserError
from nmt.base.files import read_record, write_json, write_lines, writing
from nmt.base.system import num_cores
from nmt.config import CleaningConfig, CorpusConfig

CLEANING_FILE = "cleaning.json"

PAIRS_PER_PART = 250_000

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

    def part_paths(self, part: int) -> list[Path]:
        """Both languages of one part of the training text."""
        return [self.part_path(part, language) for language in self.languages]

    def text_folder(self) -> Path:
        """Folder of the text of `valid` and the test sets."""
        return self.folder / "text"


def write_cleaned_text(
    source: Source,
    config: CorpusConfig,
    folder: Path,
    shards: Path,
    reporter: Reporter,
    more: AlignedFiles | None = None,
    num_processes: int = 1,
) -> CleaningSummary:
    """Clean a source, and additional training pairs, into an empty folder.

    Args:
        source: the corpus.
        config: the direction and the rules.
        folder: folder of the result.
        shards: folder of cleaned shards. Those of an interrupted attempt are used; the caller
            removes it.
        reporter: shows progress.
        more: additional training pairs.
        num_processes: number of processes that clean; 0 means one per core.

    Raises:
        UserError: the source cannot be read, or no training pair passes the rules.
    """
    text = CleanedText(folder, (config.source_language, config.target_language))
    total = source.num_pairs(TRAIN)
    limit = config.max_train_pairs or None
    if total is not None:
        total = min(total, limit or total) + (more.num_pairs if more else 0)
    own: Iterable[Pair] = islice(source.pairs(TRAIN), limit)
    jobs = _jobs([own, *([more.pairs()] if more else [])], config.cleaning, shards)
    summary = _clean(jobs, config, text, total, reporter, num_processes or num_cores())
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


def _jobs(
    streams: list[Iterable[Pair]], config: CleaningConfig, shards: Path
) -> Iterator[ShardJob]:
    """Divide streams of pairs into shards; those that were cleaned before need no pairs."""
    for index, pairs in enumerate(streams):
        iterator, number = iter(pairs), 0
        while shard := list(islice(iterator, SHARD_PAIRS)):
            output = shards / shard_file(index, number)
            sources, targets = ([], []) if output.exists() else map(list, zip(*shard, strict=True))
            yield ShardJob(sources, targets, config, output)
            number += 1


def _clean(
    jobs: Iterator[ShardJob],
    config: CorpusConfig,
    text: CleanedText,
    total: int | None,
    reporter: Reporter,
    num_processes: int,
) -> CleaningSummary:
    """Clean shards in processes and write the parts of the training text."""
    first = list(islice(jobs, 2))
    if len(first) < 2:
        num_processes = 1  # starting others would take longer than the work
    merger = ShardMerger(config.cleaning.drop_duplicates, text.languages)
    writer = PartWriter(text.part_paths, PAIRS_PER_PART)
    with reporter.stage("Cleaning", total) as advance:
        for path in map_in_processes(clean_shard, chain(first, jobs), num_processes):
            shard = CleanShard(path)
            kept = merger.add(shard)
            # Copies are made after cleaning, so the duplicate rule does not drop them.
            copies = config.copies if path.name.startswith(shard_file(0)) else 1
            train_bytes = None if total is None else merger.estimate_bytes(total)
            with writing(text.folder, train_bytes and train_bytes * 11 // 10 + _OTHER_BYTES):
                for _ in range(copies):
                    writer.write(kept)
            advance(shard.statistics.num_read)
    summary = merger.summary()
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
