"""Sentence pairs out of a folder of aligned text."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.manifest import FactsCache, FileFacts
from data_prep.protocol import TRAIN, VALID, zip_pairs
from nmt.config import CorpusConfig
from nmt.data.corpus import more_reference_paths
from nmt.errors import UserError
from nmt.files import check_aligned, iterate_lines, read_lines


class FolderSource:
    """A folder of aligned text: `<split>.<language>`, one sentence a line.

    Every split but `train` and `valid` that has both languages is a test set; files of other
    languages are left alone. A test set may have further references, `<split>.<target language>.1`
    and so on.
    """

    def __init__(self, config: CorpusConfig, facts: FactsCache) -> None:
        self._folder = Path(config.path)
        self._languages = (config.source_language, config.target_language)
        self._facts = facts
        if not self._folder.is_dir():
            raise UserError(
                f"corpus.path={config.path} is not a folder; name the one that holds"
                f" {TRAIN}.{self._languages[0]}, {TRAIN}.{self._languages[1]}, {VALID}.…"
            )
        for split in (TRAIN, VALID):
            for language in self._languages:
                if not self._path(split, language).exists():
                    raise UserError(
                        f"{self._path(split, language)}: no such file; corpus.source=folder with"
                        f" corpus.direction={config.direction} needs it, one sentence a line"
                    )
        for split in self.splits():
            self._check_aligned(split)

    def _path(self, split: str, language: str) -> Path:
        return self._folder / f"{split}.{language}"

    def _check_aligned(self, split: str) -> None:
        first, second = (self._path(split, language) for language in self._languages)
        paths = (first, second, *self._more_paths(split))
        lengths = {path: self._facts.facts(path).num_lines for path in paths}
        check_aligned(lengths)
        if not lengths[first]:
            raise UserError(f"{first} and {second} are empty; each split needs sentences")

    def _more_paths(self, split: str) -> list[Path]:
        # Training and validation learn from and go by one translation each.
        if split in (TRAIN, VALID):
            return []
        return more_reference_paths(self._path(split, self._languages[1]))

    def splits(self) -> list[str]:
        """`train`, `valid`, then every other split that has both languages, by name."""
        names = [
            {
                path.name.removesuffix(f".{language}")
                for path in self._folder.glob(f"*.{language}")
                if path.is_file() and not path.name.startswith(".")
            }
            for language in self._languages
        ]
        return [TRAIN, VALID, *sorted((names[0] & names[1]) - {TRAIN, VALID})]

    def identity(self) -> dict[str, Any]:
        """Size and hash of each file, by split and language."""
        files = {
            f"{split}.{language}": asdict(self._file_facts(split, language))
            for split in self.splits()
            for language in self._languages
        }
        more = [path for split in self.splits() for path in self._more_paths(split)]
        files |= {path.name: asdict(self._facts.facts(path)) for path in more}
        return {"source": "folder", "files": files}

    def _file_facts(self, split: str, language: str) -> FileFacts:
        return self._facts.facts(self._path(split, language))

    def num_pairs(self, split: str) -> int:
        """Lines of either file."""
        return self._file_facts(split, self._languages[0]).num_lines

    def pairs(self, split: str) -> Iterator[Pair]:
        """Lines of both files, side by side."""
        sides = [iterate_lines(self._path(split, language)) for language in self._languages]
        return zip_pairs(*sides)

    def more_references(self, split: str) -> list[list[str]]:
        """Lines of `<split>.<target language>.1` and so on."""
        return [read_lines(path) for path in self._more_paths(split)]

    def annotations(self, split: str) -> None:
        """A folder has none."""
