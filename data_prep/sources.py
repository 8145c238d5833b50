"""Open the source of sentence pairs that the configuration names."""

from collections.abc import Callable
from pathlib import Path

from data_prep.bible import BibleSource
from data_prep.held_out import HeldOutSource
from data_prep.hub_source import HubSource
from data_prep.local_sources import FolderSource, TableSource
from data_prep.manifest import FACTS_FILE, FactsCache
from data_prep.phrasebook_source import PhrasebookSource
from data_prep.protocol import VALID, Source
from nmt.config import CorpusConfig, CorpusSource


def open_source(config: CorpusConfig, cache: Path, say: Callable[[str], None]) -> Source:
    """The source that `corpus.source` names.

    Args:
        config: the corpus.
        cache: folder for downloads and for the cache of file hashes.
        say: receives messages about slow steps.

    Raises:
        UserError: the source lacks a split, or its files do not match or cannot be read.
    """
    facts = FactsCache(cache / FACTS_FILE)
    match config.source:
        case CorpusSource.folder:
            path = Path(config.path)
            source = TableSource(path, facts) if path.is_file() else FolderSource(config, facts)
            if VALID in source.splits():
                return source
            return HeldOutSource(source, config.cleaning, say)
        case CorpusSource.hub:
            return HubSource(config, facts, say)
        case CorpusSource.bible:
            return BibleSource(
                config.source_language, config.target_language, cache / ".downloads", say
            )
        case CorpusSource.phrasebook:
            return PhrasebookSource(config, say)
