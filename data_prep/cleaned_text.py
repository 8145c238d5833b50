"""Write cleaned text to disk, with statistics and examples of dropped pairs.

The folder contains `train-00000.<language>` and so on (each part becomes a shard), the text of
`valid` and the test sets as `text/<split>.<language>`, additional references as
`text/<split>.<target language>.1` and so on, `text/<split>.annotations.jsonl` if the source has
annotations, and `cleaning.json`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_prep.clean import Pair, normalise, normalise_pair
from data_prep.clean_shard import (
    SHARD_PAIRS,
    CleanShard,
    ShardJob,
    clean_shard,
    required_scores,
    shard_file,
    shard_stream,
)
from data_prep.direction import check_direction, report_little_text
from data_prep.executors import map_jobs
from data_prep.filters import usual_ratio
from data_prep.ledger import CleaningSummary, SourceLedger
from data_prep.manifest import describe_outputs, write_record_of
from data_prep.merge_shards import PartWriter, ShardMerger
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, Source
from nmt.base.errors import UserError
from nmt.base.files import read_record, write_lines, writing
from nmt.config import CleaningConfig, CorpusConfig, EvaluationConfig, PrepareConfig

CLEANING_FILE = "cleaning.json"

PAIRS_PER_PART = 250_000

_KEY_BYTES = 20
"""Bytes of a shard for each sentence, in addition to its text."""

_SAMPLE_PAIRS = 5_000
"""Pairs of a shard among which the languages of a source are identified."""

_OTHER_BYTES = 200_000
"""About the size of `valid`, the test sets and `cleaning.json`, for messages about a full disk."""


@dataclass(frozen=True)
class CleanedText:
    """A folder of cleaned text in two languages, the source language first."""

    folder: Path
    languages: tuple[str, str]

    def summary(self) -> CleaningSummary:
        """Read the result of cleaning; UserError if `cleaning.json` is missing or damaged."""
        return read_record(self.folder / CLEANING_FILE, CleaningSummary)

    def part_path(self, part: int, language: str) -> Path:
        """Path of one language of one part of the training text."""
        return self.folder / f"{TRAIN}-{part:05d}.{language}"

    def part_paths(self, part: int) -> list[Path]:
        """Paths of both languages of one part of the training text."""
        return [self.part_path(part, language) for language in self.languages]

    def text_folder(self) -> Path:
        """Folder of the text of `valid` and the test sets."""
        return self.folder / "text"


def write_cleaned_text(
    sources: Sequence[Source],
    config: CorpusConfig,
    folder: Path,
    shards: Path,
    reporter: Reporter,
    work: PrepareConfig | None = None,
    evaluation: EvaluationConfig | None = None,
) -> CleaningSummary:
    """Clean the training pairs of all sources, and normalise the other splits of the first one.

    Args:
        sources: the source of the corpus, then those that `corpus.sources` names.
        config: the direction and the filters.
        folder: empty folder for the result.
        shards: folder of cleaned shards. Those of an interrupted attempt are used; the caller
            removes the folder.
        reporter: shows progress.
        work: where shards are cleaned; one process of this machine by default.
        evaluation: whether references may be blank; by default, they may not.

    Raises:
        UserError: a source cannot be read, references are blank, or no training pair passes the
            filters.
    """
    text = CleanedText(folder, config.languages)
    streams = _streams(sources, config)
    total = _total([source.num_pairs(TRAIN) for source in sources], config.max_train_pairs)
    source = sources[0]
    tests = read_tests(source, evaluation or EvaluationConfig())
    if not config.cleaning.drop_test_sentences:
        tests = [], []
    merger = ShardMerger(config.cleaning, text.languages, tests)
    writer = PartWriter(text.part_paths, PAIRS_PER_PART)
    with reporter.stage("Cleaning", total) as advance:
        for kept, num_read in _clean(streams, config, shards, merger, total, work):
            train_bytes = None if total is None else merger.estimate_bytes(total)
            with writing(text.folder, train_bytes and train_bytes * 11 // 10 + _OTHER_BYTES):
                writer.write(kept)
            advance(num_read)
    summary = merger.summary()
    for name, each in zip((config.name, *config.sources), sources, strict=True):
        for line in each.skipped().lines():
            reporter.print(line)
        summary.ledger.setdefault(name, SourceLedger()).skipped = each.skipped().kinds
    if not summary.num_kept:
        raise UserError(_explain_empty_result(config, summary))
    summary.parts = writer.parts
    summary.num_pairs[TRAIN] = sum(summary.parts)
    size = sum(path.stat().st_size for path in folder.iterdir())
    with writing(folder, size + _OTHER_BYTES):
        text.text_folder().mkdir()
        for split in source.splits():
            if split != TRAIN:
                summary.num_pairs[split] = _write_text(source, split, text, config)
        summary.outputs = describe_outputs(folder)
        write_record_of(folder, CLEANING_FILE, asdict(summary))
    return summary


@dataclass(frozen=True)
class _Stream:
    """Raw training pairs of one source, their filters, and the tag that kept ones get."""

    name: str
    pairs: Iterable[Pair]
    cleaning: CleaningConfig
    tag: str


def _streams(sources: Sequence[Source], config: CorpusConfig) -> list[_Stream]:
    limit = config.max_train_pairs or None
    names, pairs = [config.name, *config.sources], [source.pairs(TRAIN) for source in sources]
    tags = ["", *(each.tag for each in config.sources.values())]
    limited = [islice(pairs[0], limit), *pairs[1:]]
    cleaning = [config.cleaning_of(name) for name in names]
    streams = [_Stream(*each) for each in zip(names, limited, cleaning, tags, strict=True)]
    return sorted(streams, key=lambda stream: config.sources_by_weight.index(stream.name))


def _total(numbers: Sequence[int | None], limit: int) -> int | None:
    """Return the number of raw training pairs, or None if it is unknown for one of the sources."""
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    return min(known[0], limit or known[0]) + sum(known[1:])


def read_tests(source: Source, evaluation: EvaluationConfig) -> tuple[list[str], list[str]]:
    """Return the sources and all references of `valid` and the test sets, normalised.

    Raises:
        UserError: references are blank and `evaluation` does not allow it.
    """
    sources: list[str] = []
    targets: list[str] = []
    for split in source.splits():
        if split != TRAIN:
            pairs = list(source.pairs(split))
            texts = [[pair.target for pair in pairs], *source.more_references(split)]
            references = [list(map(normalise, lines)) for lines in texts]
            evaluation.check_references(split, references)
            sources.extend(normalise(pair.source) for pair in pairs)
            targets.extend(chain(*references))
    return sources, targets


def _clean(
    streams: list[_Stream],
    config: CorpusConfig,
    shards: Path,
    merger: ShardMerger,
    total: int | None,
    work: PrepareConfig | None,
) -> Iterator[tuple[pa.Table, int]]:
    """Yield for each shard the pairs to keep, and the number of raw pairs."""
    jobs = _jobs(streams, config, shards)
    unchecked = {stream.name for stream in streams if config.check_languages}
    first = list(islice(jobs, 2))
    # For a single shard, starting processes would take longer than the work.
    if work is None or len(first) < 2:
        work = PrepareConfig(num_processes=1)
    with writing(shards, total and _estimate_bytes(first, total)):
        for path in map_jobs(clean_shard, chain(first, jobs), work, shards):
            stream, shard = streams[shard_stream(path)], CleanShard(path)
            kept = merger.add(shard, stream.name)
            if stream.name in unchecked and _check_direction(kept, config, stream.name):
                unchecked.remove(stream.name)
            yield _tagged(kept, stream.tag), shard.statistics.read.pairs
    for name in sorted(unchecked):
        report_little_text(config.key_of(name))


def _check_direction(kept: pa.Table, config: CorpusConfig, name: str) -> bool:
    """Check a sample of the kept pairs of a shard; return whether it was large enough."""
    order = np.argsort(kept["key"].to_numpy(), kind="stable")[:_SAMPLE_PAIRS]
    sides = (kept[side].take(pa.array(order)).to_pylist() for side in Pair._fields)
    return check_direction(sides, config.direction, config.key_of(name))


def _estimate_bytes(jobs: list[ShardJob], num_pairs: int) -> int | None:
    """Estimate the bytes of `num_pairs` raw pairs in shards and text, from the pairs of jobs."""
    texts = [text for job in jobs for text in (*job.sources, *job.targets)]
    size = sum(len(text.encode()) + _KEY_BYTES for text in texts)
    # Each text is written twice: to a shard, which is removed at the end, and to the cleaned text.
    return 2 * size * num_pairs * 2 // len(texts) + _OTHER_BYTES if texts else None


def _jobs(streams: list[_Stream], config: CorpusConfig, shards: Path) -> Iterator[ShardJob]:
    """Divide streams into shards; the job of a shard that was cleaned before has no pairs."""
    for index, stream in enumerate(streams):
        iterator, number, ratio = iter(stream.pairs), 0, 1.0
        while shard := list(islice(iterator, SHARD_PAIRS)):
            # Of the first shard, so that it depends neither on the machines nor on interruptions.
            ratio = ratio if number else usual_ratio(shard)
            output = shards.absolute() / shard_file(index, number)
            if output.exists():
                shard = []
            sides = [pair.source for pair in shard], [pair.target for pair in shard]
            scores = required_scores(shard, stream.cleaning, stream.name)
            yield ShardJob(*sides, stream.cleaning, config.languages, output, scores, ratio)
            number += 1


def _tagged(pairs: pa.Table, tag: str) -> pa.Table:
    """Put a tag before each source sentence."""
    if not tag:
        return pairs
    tagged = pc.binary_join_element_wise(tag, pairs["source"], " ")
    return pairs.set_column(pairs.column_names.index("source"), "source", tagged)


def _explain_empty_result(config: CorpusConfig, summary: CleaningSummary) -> str:
    if not summary.num_read:
        return f"corpus.name={config.name} has no training pairs: the corpus is empty"
    counts = ", ".join(f"{name} {count}" for name, count in summary.dropped.items() if count)
    return (
        f"corpus.name={config.name}: cleaning dropped all {summary.num_read} training pairs"
        f" ({counts}); relax the filters in corpus.cleaning or correct the text"
    )


def _write_text(source: Source, split: str, text: CleanedText, config: CorpusConfig) -> int:
    """Write `valid` or a test set, normalised, with references; return the number of pairs."""
    paths = [text.text_folder() / f"{split}.{language}" for language in text.languages]
    pairs = [normalise_pair(*raw) for raw in source.pairs(split)]
    if not pairs:
        raise UserError(f"the split {split} has no pairs; add some or remove the split")
    if config.check_languages:
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        check_direction(sides, config.direction, f"corpus.name={config.name}, split {split}")
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        write_lines(path, lines)
    for number, references in enumerate(source.more_references(split), start=1):
        path = paths[1].with_name(f"{paths[1].name}.{number}")
        write_lines(path, map(normalise, references))
    annotations = source.annotations(split)
    if annotations is not None:
        assert len(annotations) == len(pairs)
        records = (json.dumps(asdict(annotation), ensure_ascii=False) for annotation in annotations)
        write_lines(text.text_folder() / f"{split}.annotations.jsonl", records)
    return len(pairs)
