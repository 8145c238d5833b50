"""Clean a shard of raw training pairs: the work of one process.

A shard has a fixed number of raw pairs, so its result does not depend on the number of processes.
Duplicates are found afterwards, over all shards, by the keys of the pairs.
"""

import heapq
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from data_prep.clean import Pair, Rejection, clean_pair
from nmt.base.files import atomic_path
from nmt.config import CleaningConfig

SHARD_PAIRS = 50_000

NUM_EXAMPLES = 10
_EXAMPLE_CHARACTERS = 300

_SCHEMA = pa.schema([("source", pa.string()), ("target", pa.string()), ("key", pa.uint64())])
_STATISTICS = b"statistics"


@dataclass(frozen=True)
class Example:
    """A dropped or a kept pair, shortened, for the report."""

    source: str
    target: str
    detail: str = ""


@dataclass(frozen=True)
class Statistics:
    """What was dropped from a shard.

    Attributes:
        num_read: raw pairs.
        dropped: dropped pairs, by rule.
        examples: by rule, those with the smallest keys, which is a uniform sample.
    """

    num_read: int
    dropped: dict[str, int]
    examples: dict[str, list[tuple[int, Example]]]


@dataclass(frozen=True)
class ShardJob:
    """Raw pairs, the rules, and the file for the result."""

    sources: list[str]
    targets: list[str]
    config: CleaningConfig
    output: Path


class CleanShard:
    """The pairs of a shard that pass the rules, and statistics, in an Arrow file.

    Attributes:
        statistics: what was dropped.
        table: columns `source`, `target` and `key`.
    """

    def __init__(self, path: Path) -> None:
        with pa.memory_map(str(path)) as stream:
            self.table: pa.Table = pa.ipc.open_file(stream).read_all()
        stored = json.loads(self.table.schema.metadata[_STATISTICS])
        examples = {
            rule: [(key, Example(*texts)) for key, *texts in found]
            for rule, found in stored["examples"].items()
        }
        self.statistics = Statistics(stored["num_read"], stored["dropped"], examples)

    @cached_property
    def keys(self) -> np.ndarray:
        """(pairs,) uint64 hashes; equal pairs have equal keys."""
        return np.asarray(self.table["key"].to_numpy())


def shard_file(stream: int, number: int | None = None) -> str:
    """Return the name of a shard's file, or the beginning of the names of all of a stream."""
    return f"{stream}-" + ("" if number is None else f"{number:06d}.arrow")


def clean_shard(job: ShardJob) -> Path:
    """Write the result of a shard, unless it exists; return its path."""
    if job.output.exists():
        return job.output
    kept: list[Pair] = []
    dropped: dict[str, list[tuple[int, Example]]] = {}
    counts: Counter[str] = Counter()
    for pair in map(Pair, job.sources, job.targets):
        result = clean_pair(*pair, job.config)
        if isinstance(result, Rejection):
            rule = result.rule.value
            counts[rule] += 1
            dropped.setdefault(rule, []).append((key_of(pair), example(pair, result.detail)))
        else:
            kept.append(result)
    statistics = {
        "num_read": len(job.sources),
        "dropped": counts,
        "examples": {
            rule: [(key, *asdict(one).values()) for key, one in smallest(found)]
            for rule, found in dropped.items()
        },
    }
    keys = np.frombuffer(b"".join(map(_digest, kept)), dtype="<u8")
    sources, targets = zip(*kept, strict=True) if kept else ((), ())
    metadata = {_STATISTICS: json.dumps(statistics)}
    table = pa.table([sources, targets, keys], schema=_SCHEMA.with_metadata(metadata))
    with (
        atomic_path(job.output) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    return job.output


def example(pair: Sequence[str], detail: str = "") -> Example:
    """Shorten a pair for the report."""
    source, target = (text[:_EXAMPLE_CHARACTERS] for text in pair)
    return Example(source, target, detail)


def smallest(examples: list[tuple[int, Example]]) -> list[tuple[int, Example]]:
    """Return the examples with the smallest keys."""
    return heapq.nsmallest(NUM_EXAMPLES, examples, key=lambda one: one[0])


def key_of(pair: Pair) -> int:
    """Hash a pair to 64 bits; unlike `hash`, equally in every process."""
    return int.from_bytes(_digest(pair), "little")


def _digest(pair: Pair) -> bytes:
    return blake2b(f"{pair.source}\n{pair.target}".encode(), digest_size=8).digest()
