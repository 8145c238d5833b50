"""Open the sources that the configuration of a corpus names."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

from data_prep.held_out import HeldOutSource
from data_prep.hub_source import HubSource
from data_prep.local_sources import LocalSource
from data_prep.manifest import FactsCache
from data_prep.opus import fetch_opus
from data_prep.phrasebook_source import PhrasebookSource
from data_prep.protocol import VALID, Source
from nmt.base.errors import UserError
from nmt.config import CorpusConfig, CorpusSource, SourceConfig


def open_source(
    config: CorpusConfig, cache: Path, facts: FactsCache, report: Callable[[str], None]
) -> Source:
    """Open the source that `corpus.source` names.

    Args:
        config: the corpus.
        cache: folder for downloads.
        facts: cache of file hashes.
        report: receives messages about slow steps.

    Raises:
        UserError: keys of the source are wrong, or its text is missing, not aligned, unreadable or
            not available.
    """
    match config.source:
        case CorpusSource.folder:
            return LocalSource(config, facts, report)
        case CorpusSource.hub:
            return HubSource(config, facts, report)
        case CorpusSource.opus:
            text = fetch_opus(config, cache / ".downloads", report)
            return LocalSource(
                replace(config, source=CorpusSource.folder, path=str(text)), facts, report
            )
        case CorpusSource.phrasebook:
            return PhrasebookSource(config, report)


def open_corpus(
    config: CorpusConfig, cache: Path, facts: FactsCache, report: Callable[[str], None]
) -> list[Source]:
    """Open the source of a corpus, holding out `valid` if it has none, and `corpus.sources`.

    The arguments and errors are those of `open_source`.
    """
    first, *others = open_all(config, cache, facts, report)
    # The phrasebook has `valid`; calling its `splits` would generate the text.
    if config.source is not CorpusSource.phrasebook and VALID not in first.splits():
        first = HeldOutSource(first, config, report)
    return [first, *others]


def open_all(
    config: CorpusConfig, cache: Path, facts: FactsCache, report: Callable[[str], None]
) -> list[Source]:
    """Open the source of a corpus, without holding out any pairs, and `corpus.sources`."""
    sources = [open_source(config, cache, facts, report)]
    for name in config.sources:
        try:
            sources.append(open_source(config.origin_of(name), cache, facts, report))
        except UserError as error:
            raise UserError(_with_keys_of(name, str(error))) from None
    return sources


def _with_keys_of(name: str, error: str) -> str:
    """Replace the keys of the corpus in an error message by those of one of `corpus.sources`."""
    keys = "|".join(field.name for field in fields(SourceConfig))
    own = re.sub(rf"\bcorpus\.({keys})\b", rf"corpus.sources.{name}.\1", error)
    return own if own != error else f"corpus.sources.{name}: {error}"
