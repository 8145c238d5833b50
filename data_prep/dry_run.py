"""Show what filters would drop from a sample of each source, without preparing anything."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from rich.table import Table

from data_prep.clean import Pair, normalise
from data_prep.clean_shard import (
    CleanShard,
    ShardJob,
    clean_shard,
    required_scores,
    shard_file,
)
from data_prep.cleaned_text import read_tests
from data_prep.direction import check_direction, report_little_text
from data_prep.filters import usual_ratio
from data_prep.ledger import SourceLedger, format_share
from data_prep.manifest import NoFacts
from data_prep.merge_shards import ShardMerger
from data_prep.progress import Reporter
from data_prep.protocol import TRAIN
from data_prep.sources import open_all
from nmt.base.errors import UserError
from nmt.base.tables import new_table
from nmt.config import CleaningConfig, CorpusConfig, EvaluationConfig

SAMPLE_PAIRS = 10_000
"""Number of pairs that are read from the beginning of each source."""


def dry_run(
    corpus: CorpusConfig,
    presets: Mapping[str, CleaningConfig],
    cache: Path,
    reporter: Reporter,
    evaluation: EvaluationConfig | None = None,
) -> None:
    """Print the shares of pairs that the filters of the corpus and of each preset would drop.

    Args:
        corpus: the sources and their filters.
        presets: other values of `corpus.cleaning`, by name.
        cache: folder for downloads.
        reporter: receives the tables.
        evaluation: whether references may be blank; by default, they may not.

    Raises:
        UserError: a source cannot be read, references are blank, or the filters of the corpus need
            a missing package or scores that a source does not have.
    """
    reporter.print("dry run: nothing is prepared")
    samples, tests = read_samples(corpus, cache, reporter, evaluation)
    ledgers = {"as configured": _ledger(corpus, samples, tests)}
    for name, cleaning in presets.items():
        try:
            ledgers[name] = _ledger(replace(corpus, cleaning=cleaning), samples, tests)
        except UserError as error:
            reporter.print(f"cleaning={name} is not shown: {error}")
    for name, pairs in samples.items():
        found = {column: ledger.get(name, SourceLedger()) for column, ledger in ledgers.items()}
        reporter.print_table(_table(name, len(pairs), found))


def read_samples(
    corpus: CorpusConfig,
    cache: Path,
    reporter: Reporter,
    evaluation: EvaluationConfig | None = None,
) -> tuple[dict[str, list[Pair]], tuple[list[str], list[str]]]:
    """Read the first training pairs of each source, by its name, and the text of the test sets.

    Raises:
        UserError: a source cannot be read, or is not in the languages of the direction, or
            references are blank.
    """
    names = [corpus.name, *corpus.sources]
    sources = open_all(corpus, cache, NoFacts(), reporter.print)
    limits = [corpus.max_train_pairs or SAMPLE_PAIRS, *[SAMPLE_PAIRS] * len(corpus.sources)]
    samples = {}
    for name, source, limit in zip(names, sources, limits, strict=True):
        samples[name] = list(islice(source.pairs(TRAIN), min(limit, SAMPLE_PAIRS)))
        for line in source.skipped().lines():
            reporter.print(line)
        if corpus.check_languages:
            sides = ([normalise(pair[side]) for pair in samples[name]] for side in (0, 1))
            if not check_direction(sides, corpus.direction, corpus.key_of(name)):
                report_little_text(corpus.key_of(name))
    return samples, read_tests(sources[0], evaluation or EvaluationConfig())


def _ledger(
    corpus: CorpusConfig, samples: Mapping[str, list[Pair]], tests: tuple[list[str], list[str]]
) -> dict[str, SourceLedger]:
    merger = ShardMerger(corpus.cleaning, corpus.languages, tests)
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, pairs) in enumerate(samples.items()):
            sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
            output = Path(folder) / shard_file(number, 0)
            cleaning = corpus.cleaning_of(name)
            scores = required_scores(pairs, cleaning, name)
            ratio = usual_ratio(pairs)
            clean_shard(ShardJob(*sides, cleaning, corpus.languages, output, scores, ratio))
            merger.add(CleanShard(output), name)
    return merger.summary().ledger


def _table(name: str, num_pairs: int, ledgers: Mapping[str, SourceLedger]) -> Table:
    """Return a table of the share of pairs that each filter drops, a column for each ledger."""
    title = f"{name}: first {num_pairs:,} pairs"
    table = new_table("", title, *ledgers, texts=[title])
    used = {key for ledger in ledgers.values() for key, one in ledger.filters.items() if one.pairs}
    rows = {"kept": [ledger.kept.pairs for ledger in ledgers.values()]}
    for key in next(iter(ledgers.values())).filters:
        if key in used:
            rows[key] = [ledger.filters[key].pairs for ledger in ledgers.values()]
    for key, numbers in rows.items():
        table.add_row(key, *(format_share(number, num_pairs) for number in numbers))
    return table
