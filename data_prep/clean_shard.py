"""Clean a shard of raw training pairs: the work of one process.

A shard has a fixed number of raw pairs (the last shard of a source may have fewer), so its result
does not depend on the number of processes. Filters that compare all pairs of the corpus run later,
in `data_prep.merge_shards`; they compare keys, which are hashes of the pairs.
"""

import heapq
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b, sha256
from itertools import repeat
from pathlib import Path

import numpy as np
import pyarrow as pa

from data_prep.clean import Pair, score_of
from data_prep.filters import clean_pair, is_letter
from data_prep.ledger import Amount, Example
from nmt.base.errors import UserError
from nmt.base.files import atomic_path
from nmt.base.languages import num_words
from nmt.config import MAX_SCORE, CleaningConfig

SHARD_PAIRS = 50_000

NUM_EXAMPLES = 20
_EXAMPLE_CHARACTERS = 300
_STATISTICS = b"statistics"
_DIGEST_BYTES = 32


Keyed = tuple[int, Example]
"""An example and the key of its pair. Examples with the smallest keys are a uniform sample."""


@dataclass(frozen=True)
class Statistics:
    """Numbers and examples of the pairs dropped from a shard.

    Attributes:
        read: all pairs of the shard.
        dropped: pairs dropped by each combination of filters, by their names joined with `+`.
        examples: some of the pairs that each filter dropped, by its name.
    """

    read: Amount
    dropped: dict[str, Amount]
    examples: dict[str, list[Keyed]]


@dataclass(frozen=True)
class ShardJob:
    """Raw pairs, filters, languages, the file for the result, and what some filters need.

    Attributes:
        scores: the scores of the pairs; None if no filter needs them.
        usual_ratio: of the lengths of the source, see `data_prep.filters`.
    """

    sources: list[str]
    targets: list[str]
    config: CleaningConfig
    languages: tuple[str, str]
    output: Path
    scores: list[float] | None = None
    usual_ratio: float = 1.0


def required_scores(
    pairs: Sequence[Pair], cleaning: CleaningConfig, name: str
) -> list[float] | None:
    """Return the scores of raw pairs of the source `name`; None if no minimum score is set.

    Raises:
        UserError: a pair has no score.
    """
    if cleaning.min_score == -MAX_SCORE:
        return None
    scores = [score for pair in pairs if (score := score_of(pair)) is not None]
    if len(scores) < len(pairs):
        raise UserError(
            f"corpus.cleaning.min_score={cleaning.min_score:g}: pairs of {name} have no score; give"
            " a third column of a TSV file, a file train.score beside the text, or corpus.hub_score"
        )
    return scores


class CleanShard:
    """The pairs of a shard that pass the filters, and statistics.

    The file at `path` consists of an Arrow file and the SHA-256 of that file.

    Attributes:
        table: columns `source`, `target`, the number of words of each, and `key`; `near`,
            `source_key` and `target_key` if the filters of the whole corpus need them.
        statistics: what was dropped.

    Raises:
        UserError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        contents = path.read_bytes()
        arrow, digest = contents[:-_DIGEST_BYTES], contents[-_DIGEST_BYTES:]
        if digest != sha256(arrow).digest():
            raise UserError(f"{path}: is damaged; remove it and run the command again")
        self.table: pa.Table = pa.ipc.open_file(pa.py_buffer(arrow)).read_all()
        stored = json.loads(self.table.schema.metadata[_STATISTICS])
        self.statistics = Statistics(
            Amount(*stored["read"]),
            {names: Amount(*amount) for names, amount in stored["dropped"].items()},
            {
                name: [(key, Example(*texts)) for key, *texts in found]
                for name, found in stored["examples"].items()
            },
        )


def shard_file(source: int, number: int) -> str:
    """Return the file name of a shard: the index of its source, and its number in that source."""
    return f"{source:03d}-{number:06d}.arrow"


def shard_stream(path: Path) -> int:
    """Return the index of the source that a shard belongs to."""
    return int(path.name.partition("-")[0])


def clean_shard(job: ShardJob) -> Path:
    """Clean a shard and write the result, unless the file exists; return the path of the file."""
    if job.output.exists():
        return job.output
    kept: list[Pair] = []
    dropped: dict[str, Amount] = {}
    examples: dict[str, list[Keyed]] = {}
    read = Amount()
    scores = job.scores or repeat(None, len(job.sources))
    for source, target, score in zip(job.sources, job.targets, scores, strict=True):
        raw = source, target
        pair, reasons = clean_pair(*raw, job.config, job.languages, score, job.usual_ratio)
        amount = Amount(1, num_words(pair.source))
        read.add(amount)
        if not reasons:
            kept.append(pair)
            continue
        dropped.setdefault("+".join(reasons), Amount()).add(amount)
        key = key_of(*raw)
        for name, reason in reasons.items():
            examples.setdefault(name, []).append((key, example(raw, reason)))
    statistics = {
        "read": [read.pairs, read.words],
        "dropped": {names: [one.pairs, one.words] for names, one in dropped.items()},
        "examples": {
            name: [(key, *asdict(one).values()) for key, one in smallest(found)]
            for name, found in examples.items()
        },
    }
    table = pa.table(
        {
            "source": pa.array([pair.source for pair in kept], pa.string()),
            "target": pa.array([pair.target for pair in kept], pa.string()),
            "source_words": pa.array([num_words(pair.source) for pair in kept], pa.int64()),
            "target_words": pa.array([num_words(pair.target) for pair in kept], pa.int64()),
            **{name: pa.array(_keys(kept, key)) for name, key in _key_columns(job.config).items()},
        },
        metadata={_STATISTICS: json.dumps(statistics)},
    )
    with atomic_path(job.output) as temporary, temporary.open("wb") as out:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        arrow = sink.getvalue()
        out.write(arrow)
        out.write(sha256(arrow).digest())
    return job.output


def _key_columns(config: CleaningConfig) -> dict[str, Callable[[Pair], int]]:
    columns: dict[str, Callable[[Pair], int]] = {"key": lambda pair: key_of(*pair)}
    if config.drop_near_duplicates:
        columns["near"] = _near_key
    if config.drop_test_sentences or config.drop_duplicate_sides:
        key = side_key(config)
        columns["source_key"] = lambda pair: key(pair.source)
        columns["target_key"] = lambda pair: key(pair.target)
    return columns


def _keys(pairs: Sequence[Pair], key: Callable[[Pair], int]) -> np.ndarray:
    return np.fromiter(map(key, pairs), dtype=np.uint64, count=len(pairs))


def example(pair: Sequence[str], detail: str = "") -> Example:
    """Return a pair as an example for the report, with shortened texts."""
    source, target = (text[:_EXAMPLE_CHARACTERS] for text in pair)
    return Example(source, target, detail)


def smallest(examples: list[Keyed]) -> list[Keyed]:
    """Return the NUM_EXAMPLES examples with the smallest keys."""
    return heapq.nsmallest(NUM_EXAMPLES, examples, key=lambda one: one[0])


def key_of(*texts: str) -> int:
    """Hash texts to 64 bits; unlike `hash`, this gives the same result in every process."""
    digest = blake2b("\n".join(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def side_key(config: CleaningConfig) -> Callable[[str], int]:
    """Return the function whose hashes are compared to find equal sides of pairs."""
    if config.drop_near_duplicates:
        return lambda text: key_of(_letters(text) or text)
    return key_of


def _near_key(pair: Pair) -> int:
    """Hash the letters of both sides, ignoring case; the whole pair if a side has no letters."""
    letters = [_letters(text) for text in pair]
    return key_of(*letters) if all(letters) else key_of(*pair)


def _letters(text: str) -> str:
    # The lower case of "İ" is "i" and a combining dot, which no other "i" has.
    return "".join(filter(is_letter, text.replace("İ", "i").casefold()))
