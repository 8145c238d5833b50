"""Encode cleaned text into Arrow shards, one per part of the text, in parallel processes.

A part is read and encoded in blocks of a few thousand pairs: it is never in memory as a whole.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from data_prep.cleaned_text import CleanedText
from data_prep.executors import map_jobs
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN
from data_prep.terminology import Terms
from nmt.base.files import iterate_lines
from nmt.config import PrepareConfig
from nmt.data.corpus import Ids, shard_name, write_shard
from nmt.tokenizer import Tokenizer

_BLOCK_PAIRS = 4_096


@dataclass(frozen=True)
class EncodeJob:
    """One part of the text, the tokenizers, the path of its shard, and the terms of sources."""

    source_text: Path
    target_text: Path
    source_tokenizer: Path
    target_tokenizer: Path
    output: Path
    terms: Terms | None = None


@dataclass
class TokenCounts:
    """Token counts of one language of the training text.

    Attributes:
        lengths: number of sentences of each length in tokens, without BOS and EOS.
        id_counts: (V,) int64, frequency of each id.
        num_unknown: number of unknown tokens, which cannot be decoded.
    """

    lengths: Counter[int]
    id_counts: np.ndarray
    num_unknown: int

    @property
    def num_tokens(self) -> int:
        """Number of tokens in all sentences."""
        return int(self.id_counts.sum())

    def add(self, other: "TokenCounts") -> None:
        """Add the counts of another part."""
        self.lengths.update(other.lengths)
        self.id_counts = self.id_counts + other.id_counts
        self.num_unknown += other.num_unknown


_BothCounts = tuple[TokenCounts, TokenCounts]
"""Counts of source and target."""


def build_shards(
    text: CleanedText,
    num_pairs: list[int],
    tokenizers: tuple[Path, Path],
    folder: Path,
    reporter: Reporter,
    work: PrepareConfig,
    jobs_folder: Path,
    terms: Terms | None = None,
) -> _BothCounts:
    """Write `train-00000.arrow` and so on into `folder`; return token counts of both languages.

    Args:
        text: the cleaned text.
        num_pairs: number of training pairs of each part.
        tokenizers: model files of source and target.
        folder: folder of the shards.
        reporter: shows progress.
        work: where parts are encoded.
        jobs_folder: for files of SLURM jobs, which are not part of the corpus.
        terms: put into sources; None for none.
    """
    source_language, target_language = text.languages
    jobs = [
        EncodeJob(
            text.part_path(part, source_language),
            text.part_path(part, target_language),
            *tokenizers,
            folder / shard_name(TRAIN, part),
            terms,
        )
        for part in range(len(num_pairs))
    ]
    results = []
    with reporter.stage("Encoding", sum(num_pairs)) as advance:
        found = map_jobs(encode_part, jobs, work, jobs_folder, len(jobs))
        for count, result in zip(num_pairs, found, strict=True):
            results.append(result)
            advance(count)
    for source, target in results[1:]:
        results[0][0].add(source)
        results[0][1].add(target)
    return results[0]


def encode_part(job: EncodeJob) -> _BothCounts:
    """Encode one part of the text into a shard; return token counts of source and target."""
    tokenizers = (Tokenizer(job.source_tokenizer), Tokenizer(job.target_tokenizer))
    counts = tuple(
        TokenCounts(Counter(), np.zeros(tokenizer.vocabulary_size, dtype=np.int64), 0)
        for tokenizer in tokenizers
    )

    def pairs() -> Iterator[tuple[Ids, Ids]]:
        sources, targets = iterate_lines(job.source_text), iterate_lines(job.target_text)
        while block := list(islice(sources, _BLOCK_PAIRS)):
            target_block = list(islice(targets, _BLOCK_PAIRS))
            if job.terms:
                block = list(map(job.terms.annotated, block, target_block))
            source_ids, target_ids = tokenizers[0].encode(block), tokenizers[1].encode(target_block)
            _count(counts[0], source_ids)
            _count(counts[1], target_ids)
            yield from zip(source_ids, target_ids, strict=True)

    write_shard(job.output, pairs())
    for side, tokenizer in zip(counts, tokenizers, strict=True):
        side.num_unknown = int(side.id_counts[tokenizer.unknown_id])
    return counts[0], counts[1]


def _count(counts: TokenCounts, sequences: list[Ids]) -> None:
    counts.lengths.update(map(len, sequences))
    flat = np.fromiter((i for ids in sequences for i in ids), dtype=np.int64)
    counts.id_counts += np.bincount(flat, minlength=len(counts.id_counts))
