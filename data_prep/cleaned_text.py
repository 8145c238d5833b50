"""Raw pairs to cleaned text on disk, in parts, with a count and examples of what was dropped.

The folder holds `train-00000.<language>` and so on (a part becomes a shard later, in a process of
its own), `text/<split>.<language>` of valid and of the test sets, `text/<split>.annotations.jsonl`
where the source has them, and `cleaning.json`.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from data_prep.clean import Pair, Rejection, Rule, clean_pair, normalise, normalise_pair
from data_prep.duplicates import SeenPairs
from data_prep.more_pairs import MorePairs
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN, Annotation, Source
from nmt.config import CleaningConfig, CorpusConfig
from nmt.errors import UserError
from nmt.files import read_json, write_json, write_lines, writing

CLEANING_FILE = "cleaning.json"

PAIRS_PER_PART = 250_000

_CHUNK_PAIRS = 10_000
_NUM_EXAMPLES = 10
_EXAMPLE_CHARACTERS = 300

_VALID_AND_TESTS_BYTES = 200_000
"""Of their text and of `cleaning.json`, roughly: for the message when there is no room."""


@dataclass(frozen=True)
class Example:
    """A dropped or a kept pair, shortened, for the report."""

    source: str
    target: str
    detail: str = ""


@dataclass
class CleaningSummary:
    """What cleaning did to one corpus."""

    num_read: int = 0
    """Training pairs read."""
    num_kept: int = 0
    """Training pairs kept."""
    dropped: dict[str, int] = field(default_factory=lambda: {rule.value: 0 for rule in Rule})
    """Training pairs dropped, by rule."""
    examples: dict[str, list[Example]] = field(default_factory=dict)
    """A few dropped pairs, by rule, drawn evenly from all of them."""
    samples: list[Example] = field(default_factory=list)
    """A few kept pairs, drawn evenly from all of them."""
    words: dict[str, dict[int, int]] = field(default_factory=dict)
    """Language to number of words to kept training sentences of that length."""
    characters: dict[str, int] = field(default_factory=dict)
    """Characters of the kept training text, by language."""
    num_pairs: dict[str, int] = field(default_factory=dict)
    """Pairs by split; of `train`, those kept."""
    parts: list[int] = field(default_factory=list)
    """Training pairs in each part."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each file of the folder, by relative path."""


@dataclass(frozen=True)
class CleanedText:
    """A finished folder of cleaned text."""

    folder: Path
    languages: tuple[str, str]
    """Source and target."""

    def summary(self) -> CleaningSummary:
        """What cleaning did.

        Raises:
            UserError: the folder's own account is gone or damaged.
        """
        values: dict[str, Any] = read_json(self.folder / CLEANING_FILE)
        values["examples"] = {
            rule: [Example(**example) for example in examples]
            for rule, examples in values["examples"].items()
        }
        values["samples"] = [Example(**example) for example in values["samples"]]
        values["words"] = {
            language: {int(length): count for length, count in counts.items()}
            for language, counts in values["words"].items()
        }
        return CleaningSummary(**values)

    def is_complete(self) -> bool:
        """Whether every file is there, and of the size that it was written with."""
        if not (self.folder / CLEANING_FILE).is_file():
            return False
        sizes = self.summary().sizes
        return all(
            (self.folder / name).is_file() and (self.folder / name).stat().st_size == size
            for name, size in sizes.items()
        )

    def part_path(self, part: int, language: str) -> Path:
        """One language of one part of the training text."""
        return self.folder / f"{TRAIN}-{part:05d}.{language}"

    def text_folder(self) -> Path:
        """The text of valid and of the test sets."""
        return self.folder / "text"


class _Reservoir:
    """A few items drawn evenly from a stream of unknown length (Vitter 1985, algorithm R)."""

    def __init__(self, size: int) -> None:
        self.items: list[Example] = []
        self._size = size
        self._num_offered = 0
        # A seed of its own: the same text gives the same report.
        self._random = random.Random(1)

    def offer(self, source: str, target: str, detail: str = "") -> None:
        self._num_offered += 1
        if len(self.items) < self._size:
            self.items.append(_example(source, target, detail))
            return
        place = self._random.randrange(self._num_offered)
        if place < self._size:
            self.items[place] = _example(source, target, detail)


def _example(source: str, target: str, detail: str) -> Example:
    return Example(source[:_EXAMPLE_CHARACTERS], target[:_EXAMPLE_CHARACTERS], detail)


class _PartWriter:
    """Writes pairs into numbered parts of at most `pairs_per_part` pairs."""

    def __init__(self, text: CleanedText, pairs_per_part: int) -> None:
        self._text = text
        self._pairs_per_part = pairs_per_part
        self._streams: list[IO[str]] = []
        self.parts: list[int] = []

    def write(self, pairs: Iterable[Pair]) -> None:
        """Write pairs, as far as the disk: what it refuses shows here."""
        for pair in pairs:
            if not self.parts or self.parts[-1] == self._pairs_per_part:
                self._open_next()
            for stream, line in zip(self._streams, pair, strict=True):
                stream.write(line + "\n")
            self.parts[-1] += 1
        for stream in self._streams:
            stream.flush()

    def _open_next(self) -> None:
        self.close()
        self._streams = [
            self._text.part_path(len(self.parts), language).open(
                "w", encoding="utf-8", newline="\n"
            )
            for language in self._text.languages
        ]
        self.parts.append(0)

    def __enter__(self) -> "_PartWriter":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self.close()
        except OSError:
            # It fails again on what has failed before: the first error is to be told.
            if error is None:
                raise

    def close(self) -> None:
        with ExitStack() as stack:
            # All of them, even where one cannot be flushed.
            for stream in self._streams:
                stack.callback(stream.close)
        self._streams = []


class _TrainCleaner:
    """Applies every rule to the training pairs, and keeps the accounts."""

    def __init__(self, config: CleaningConfig, languages: tuple[str, str]) -> None:
        self._config = config
        self._seen = SeenPairs()
        self._languages = languages
        self._reservoirs = {rule: _Reservoir(_NUM_EXAMPLES) for rule in Rule}
        self._samples = _Reservoir(_NUM_EXAMPLES)
        self._words: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._characters = [0, 0]
        self._bytes = 0
        self._dropped: Counter[Rule] = Counter()
        self.num_read = 0

    def clean(self, raw: list[Pair]) -> list[Pair]:
        """The pairs that pass every rule."""
        self.num_read += len(raw)
        passed: list[Pair] = []
        for source, target in raw:
            result = clean_pair(source, target, self._config)
            if isinstance(result, Rejection):
                self._drop(result, source, target)
            else:
                passed.append(result)
        kept = self._without_duplicates(passed)
        for pair in kept:
            self._count(pair)
        return kept

    def _without_duplicates(self, pairs: list[Pair]) -> list[Pair]:
        if not self._config.drop_duplicates or not pairs:
            return pairs
        kept = []
        for pair, is_new in zip(pairs, self._seen.first_seen(pairs), strict=True):
            if is_new:
                kept.append(pair)
            else:
                self._drop(Rejection(Rule.duplicate, "seen before"), *pair)
        return kept

    def _drop(self, rejection: Rejection, source: str, target: str) -> None:
        self._dropped[rejection.rule] += 1
        self._reservoirs[rejection.rule].offer(source, target, rejection.detail)

    def _count(self, pair: Pair) -> None:
        self._samples.offer(*pair)
        for side, text in enumerate(pair):
            self._words[side][text.count(" ") + 1] += 1
            self._characters[side] += len(text)
            self._bytes += len(text.encode()) + 1

    def room_needed(self, total: int | None) -> int | None:
        """Bytes of all text, judged by what was read; None where the number of pairs is unknown."""
        if total is None:
            return None
        train = self._bytes * total // self.num_read
        return train + train // 10 + _VALID_AND_TESTS_BYTES

    def summary(self) -> CleaningSummary:
        return CleaningSummary(
            num_read=self.num_read,
            num_kept=self.num_read - self._dropped.total(),
            dropped={rule.value: self._dropped[rule] for rule in Rule},
            examples={rule.value: self._reservoirs[rule].items for rule in Rule},
            samples=self._samples.items,
            words={
                language: dict(sorted(counts.items()))
                for language, counts in zip(self._languages, self._words, strict=True)
            },
            characters=dict(zip(self._languages, self._characters, strict=True)),
        )


def write_cleaned_text(
    source: Source,
    config: CorpusConfig,
    folder: Path,
    reporter: Reporter,
    pairs_per_part: int = PAIRS_PER_PART,
    more: MorePairs | None = None,
) -> CleaningSummary:
    """Clean a source, and further training pairs, into an empty folder.

    Raises:
        UserError: the source cannot be read, or no training pair is left.
    """
    text = CleanedText(folder, (config.source_language, config.target_language))
    summary = _write_train(source, config, text, reporter, pairs_per_part, more)
    # Copies are no pairs that were read, so they are not among those kept.
    summary.num_pairs[TRAIN] = sum(summary.parts)
    with writing(folder, sum(_sizes(folder).values()) + _VALID_AND_TESTS_BYTES):
        text.text_folder().mkdir()
        for split in source.splits():
            if split != TRAIN:
                summary.num_pairs[split] = _write_text(source, split, text)
        summary.sizes = _sizes(folder)
        write_json(folder / CLEANING_FILE, asdict(summary))
    return summary


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each file of a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _write_train(
    source: Source,
    config: CorpusConfig,
    text: CleanedText,
    reporter: Reporter,
    pairs_per_part: int,
    more: MorePairs | None,
) -> CleaningSummary:
    total = source.num_pairs(TRAIN)
    limit = config.max_train_pairs or None
    if total is not None and limit is not None:
        total = min(total, limit)
    if total is not None and more is not None:
        total += more.num_pairs()
    cleaner = _TrainCleaner(config.cleaning, text.languages)
    with (
        _PartWriter(text, pairs_per_part) as writer,
        reporter.stage("Cleaning", total) as advance,
    ):
        own: Iterable[Pair] = islice(source.pairs(TRAIN), limit)
        streams = [(own, config.copies)]
        if more is not None:
            streams.append((more.pairs(), 1))
        for pairs, copies in streams:
            for chunk in _chunks(pairs):
                # After cleaning: copies are no duplicates that somebody left in.
                kept = cleaner.clean(chunk) * copies
                with writing(text.folder, cleaner.room_needed(total)):
                    writer.write(kept)
                advance(len(chunk))
    summary = cleaner.summary()
    summary.parts = writer.parts
    if not summary.num_kept:
        raise UserError(_nothing_left(config, summary))
    return summary


def _nothing_left(config: CorpusConfig, summary: CleaningSummary) -> str:
    if not summary.num_read:
        return f"corpus.name={config.name} has no training pairs: the corpus is empty"
    counts = ", ".join(f"{rule} {count}" for rule, count in summary.dropped.items() if count)
    return (
        f"corpus.name={config.name}: cleaning dropped all {summary.num_read} training pairs"
        f" ({counts}); loosen corpus.cleaning or mend the text"
    )


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK_PAIRS)):
        yield chunk


def _write_text(source: Source, split: str, text: CleanedText) -> int:
    """Write valid or a test set, normalised, line for line; returns the number of pairs."""
    paths = [text.text_folder() / f"{split}.{language}" for language in text.languages]
    num_pairs = 0
    with (
        paths[0].open("w", encoding="utf-8", newline="\n") as sources,
        paths[1].open("w", encoding="utf-8", newline="\n") as targets,
    ):
        for raw in source.pairs(split):
            pair = normalise_pair(*raw)
            sources.write(pair.source + "\n")
            targets.write(pair.target + "\n")
            num_pairs += 1
    if not num_pairs:
        raise UserError(f"the split {split} has no pairs; give it sentences or leave it out")
    for number, lines in enumerate(source.more_references(split), start=1):
        assert len(lines) == num_pairs
        write_lines(paths[1].with_name(f"{paths[1].name}.{number}"), list(map(normalise, lines)))
    annotations = source.annotations(split)
    if annotations is not None:
        assert len(annotations) == num_pairs
        _write_annotations(text.text_folder() / f"{split}.annotations.jsonl", annotations)
    return num_pairs


def _write_annotations(path: Path, annotations: list[Annotation]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for annotation in annotations:
            out.write(json.dumps(asdict(annotation), ensure_ascii=False) + "\n")
