"""Sentence pairs from local text: a folder of files, or one or two files of training text.

All files except additional references may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`).
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.folders import JSON_ENDINGS, XLIFF_ENDINGS, Folder
from data_prep.json_reader import JsonReader
from data_prep.manifest import FactsCache
from data_prep.po_reader import PoReader
from data_prep.protocol import TRAIN, VALID, Source
from data_prep.readers import AlignedFiles, Reader
from data_prep.skipped import Skipped
from data_prep.table_reader import TableReader
from data_prep.text_files import BadUnit, is_archive, iterate_text, plain_name
from data_prep.xml_reader import XmlReader
from nmt.base.errors import UserError
from nmt.base.files import check_aligned
from nmt.config import CorpusConfig
from nmt.data.corpus import more_reference_paths


def open_reader(
    path: Path, config: CorpusConfig, facts: FactsCache, report: Callable[[str], None]
) -> Reader:
    """Open a file of pairs by the ending of its name; a file with another ending is a table."""
    match Path(plain_name(path)).suffix.lower():
        case ".tmx":
            return XmlReader(path, config.languages, facts, is_xliff=False)
        case suffix if suffix in XLIFF_ENDINGS:
            return XmlReader(path, config.languages, facts, is_xliff=True)
        case suffix if suffix in JSON_ENDINGS:
            return JsonReader(path, config, facts)
        case ".po":
            return PoReader(path, config.languages, facts)
        case _ if is_archive(path):
            raise UserError(
                f"corpus.path={path} is an archive; unpack it (as by unzip or tar -xf), and name"
                " the folder of its files"
            )
    return TableReader(path, config, facts, report)


class LocalSource(Source):
    """A folder of text, a file of pairs, or two files of aligned lines.

    `data_prep.folders` describes folders. A test set of two files may have additional references,
    `<split>.<target language>.1` and so on.
    """

    def __init__(
        self, config: CorpusConfig, facts: FactsCache, report: Callable[[str], None]
    ) -> None:
        path = Path(config.path)
        self._facts, self._max_bad_share, self._skipped = facts, config.max_bad_share, Skipped()
        key = f"corpus.path={config.path} with corpus.direction={config.direction}"
        folder = Folder(path if path.is_dir() else path.parent, config, key)
        if path.is_file():
            found = {TRAIN: {TRAIN: [path]}}
        elif path.is_dir():
            found = folder.splits(report)
        elif path.name in folder.files:
            found = {TRAIN: {path.name: folder.files[path.name]}}
        else:
            raise UserError(
                f"corpus.path={config.path} is neither a folder nor a file; name a folder with"
                f" {TRAIN}.{config.source_language} and {TRAIN}.{config.target_language}, the"
                " common beginning of two such files, or a file of pairs (TMX, XLIFF, PO, TSV, CSV"
                " or JSON)"
            )
        self._files: dict[str, dict[str, Reader]] = {
            split: {
                name: open_reader(paths[0], config, facts, report)
                if len(paths) == 1
                else AlignedFiles(paths, facts, key)
                for name, paths in parts.items()
            }
            for split, parts in found.items()
        }
        for split in self._files:
            counts = {
                path: facts.facts(path, is_text=True).num_lines for path in self._more_paths(split)
            }
            if counts:
                [files] = self._files[split].values()
                assert files.num_pairs is not None
                check_aligned({files.paths[0]: files.num_pairs, **counts})

    def _more_paths(self, split: str) -> list[Path]:
        [files, *_] = self._files[split].values()
        # Training and validation use one reference per sentence.
        is_plain = split in (TRAIN, VALID) or len(files.paths) == 1
        return [] if is_plain else more_reference_paths(files.paths[1])

    def splits(self) -> list[str]:
        """`train`, `valid` if the folder has it, then the test sets by name."""
        return list(self._files)

    def identity(self) -> dict[str, Any]:
        """Facts of each file, by split, part of the training text, or name of the references."""
        files: dict[str, Any] = {
            split if len(parts) == 1 else name: part.identity()
            for split, parts in self._files.items()
            for name, part in parts.items()
        }
        for split in self._files:
            for path in self._more_paths(split):
                files[path.name] = asdict(self._facts.facts(path))
        return {"source": "folder", "files": files}

    def num_pairs(self, split: str) -> int | None:
        """Number of pairs; None if one of the files must be read first."""
        numbers = [part.num_pairs for part in self._files[split].values()]
        return sum(filter(None, numbers)) if None not in numbers else None

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of all files of a split.

        Raises:
            UserError: too many units of a file cannot be read, or one of another split than `train`
                cannot.
        """
        skipped = Skipped()
        if split == TRAIN:
            self._skipped = skipped
        for part in self._files[split].values():
            num_bad, before = skipped.units, skipped.total
            for unit in part.pairs():
                skipped.total += 1
                if isinstance(unit, BadUnit):
                    skipped.add(unit, part.paths[0])
                else:
                    yield unit
            num_bad, total = skipped.units - num_bad, skipped.total - before
            if num_bad > (self._max_bad_share * total if split == TRAIN else 0):
                fix = "; correct the file, or set corpus.max_bad_share" if split == TRAIN else ""
                raise UserError(f"{next(skipped.lines())}{fix}")

    def skipped(self) -> Skipped:
        """The units of the training text that could not be read, of those read so far."""
        return self._skipped

    def more_references(self, split: str) -> list[list[str]]:
        """Lines of `<split>.<target language>.1` and so on."""
        return [list(iterate_text(path)) for path in self._more_paths(split)]
