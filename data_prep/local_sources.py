"""Sentence pairs from local text: a folder of aligned files, or one file with two columns."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, VALID, Source
from nmt.base.errors import UserError
from nmt.base.files import check_aligned, is_plain_name, iterate_lines, read_lines
from nmt.config import CorpusConfig
from nmt.data.corpus import more_reference_paths


class AlignedFiles:
    """Two files of aligned lines: line n of the second is the translation of line n of the first.

    Args:
        paths: files of the source and the target language.
        facts: cache of their sizes and hashes.
        key: the configuration key that names their folder, for error messages.

    Raises:
        UserError: a file is missing, or they have different numbers of lines or none.
    """

    def __init__(self, paths: tuple[Path, Path], facts: FactsCache, key: str) -> None:
        self.paths = paths
        for path in paths:
            if not path.exists():
                raise UserError(f"{path}: no such file; {key} needs it, with one sentence per line")
        self._cache = facts
        self._facts = [facts.facts(path) for path in paths]
        self.num_pairs = self._facts[0].num_lines
        check_aligned({path: f.num_lines for path, f in zip(paths, self._facts, strict=True)})
        if not self.num_pairs:
            raise UserError(f"{paths[0]} and {paths[1]} are empty; {key} needs sentences in them")

    def identity(self) -> list[dict[str, Any]]:
        """Size, hash and number of lines of both files."""
        return [asdict(facts) for facts in self._facts]

    def pairs(self) -> Iterator[Pair]:
        """Lines of both files, side by side; UserError if a file changes meanwhile."""
        yield from starmap(Pair, zip(*map(iterate_lines, self.paths), strict=False))
        for path, facts in zip(self.paths, self._facts, strict=True):
            self._cache.check(path, facts)


def open_more_pairs(config: CorpusConfig, facts: FactsCache) -> AlignedFiles | None:
    """Additional training pairs in the folder `corpus.more_path`; None if it is empty."""
    if not config.more_path:
        return None
    folder, languages = Path(config.more_path), (config.source_language, config.target_language)
    source, target = (folder / f"{TRAIN}.{language}" for language in languages)
    key = f"corpus.more_path={folder} with corpus.direction={config.direction}"
    return AlignedFiles((source, target), facts, key)


class FolderSource(Source):
    """A folder of aligned text: `<split>.<language>`, one sentence per line.

    Every split except `train` and `valid` that has both languages is a test set; files of other
    languages are ignored. A test set may have additional references,
    `<split>.<target language>.1` and so on. A folder with a single split is training text,
    whatever its name.
    """

    def __init__(self, config: CorpusConfig, facts: FactsCache) -> None:
        self._folder = Path(config.path)
        self._languages = (config.source_language, config.target_language)
        self._facts = facts
        if not self._folder.is_dir():
            raise UserError(
                f"corpus.path={config.path} is neither a folder nor a file; name a folder with"
                f" {TRAIN}.{self._languages[0]} and {TRAIN}.{self._languages[1]}, or a file with"
                " one pair per line, separated by a tab"
            )
        names = [self._names(language) for language in self._languages]
        complete = names[0] & names[1]
        self._train = TRAIN
        if TRAIN not in names[0] | names[1] and len(complete) == 1:
            (self._train,) = complete
        # `train` and `valid` with one language only are errors; other such files are ignored.
        has_valid = VALID in names[0] | names[1] and self._train != VALID
        tests = sorted(complete - {self._train, VALID})
        for name in tests:
            if not is_plain_name(name):
                raise UserError(
                    f"{self._folder}: the split {name!r} has a name with control characters or"
                    " bytes that are not UTF-8; rename its files"
                )
        self._splits = [TRAIN, *[VALID] * has_valid, *tests]
        key = f"corpus.path={config.path} with corpus.direction={config.direction}"
        self._files = {
            split: AlignedFiles(self._paths(split), facts, key) for split in self._splits
        }
        for split, files in self._files.items():
            counts = {path: facts.facts(path).num_lines for path in self._more_paths(split)}
            check_aligned({files.paths[0]: files.num_pairs, **counts})

    def _names(self, language: str) -> set[str]:
        """Names of the splits that have a file of this language."""
        paths = self._folder.glob(f"*.{language}")
        return {
            path.name.removesuffix(f".{language}")
            for path in paths
            if path.is_file() and not path.name.startswith(".")
        }

    def _paths(self, split: str) -> tuple[Path, Path]:
        name = self._train if split == TRAIN else split
        source, target = (self._folder / f"{name}.{language}" for language in self._languages)
        return source, target

    def _more_paths(self, split: str) -> list[Path]:
        # Training and validation use one reference per sentence.
        return [] if split in (TRAIN, VALID) else more_reference_paths(self._paths(split)[1])

    def splits(self) -> list[str]:
        """`train`, `valid` if the folder has it, then the test sets by name."""
        return self._splits

    def identity(self) -> dict[str, Any]:
        """Size and hash of each file, by split."""
        files: dict[str, Any] = {
            split: dict(zip(self._languages, files.identity(), strict=True))
            for split, files in self._files.items()
        }
        for split in self._splits:
            for path in self._more_paths(split):
                files[path.name] = asdict(self._facts.facts(path))
        return {"source": "folder", "files": files}

    def num_pairs(self, split: str) -> int:
        """Number of lines of each file."""
        return self._files[split].num_pairs

    def pairs(self, split: str) -> Iterator[Pair]:
        """Lines of both files, side by side."""
        return self._files[split].pairs()

    def more_references(self, split: str) -> list[list[str]]:
        """Lines of `<split>.<target language>.1` and so on."""
        return [read_lines(path) for path in self._more_paths(split)]


class TableSource(Source):
    """A file of training pairs, one per line: the source, a tab, the target."""

    def __init__(self, path: Path, facts: FactsCache) -> None:
        self._path = path
        self._cache = facts
        self._facts = facts.facts(path)

    def splits(self) -> list[str]:
        """`train` only."""
        return [TRAIN]

    def identity(self) -> dict[str, Any]:
        """Size and hash of the file."""
        return {"source": "table", "file": asdict(self._facts)}

    def num_pairs(self, split: str) -> int:
        """Number of lines."""
        assert split == TRAIN
        return self._facts.num_lines

    def pairs(self, split: str) -> Iterator[Pair]:
        """The two columns of each line.

        Raises:
            UserError: a line has another number of columns, or the file changes meanwhile.
        """
        assert split == TRAIN
        for number, line in enumerate(iterate_lines(self._path), start=1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise UserError(
                    f"{self._path}: line {number} has {len(columns)} columns, separated by tabs;"
                    " each line needs 2, the source and its translation"
                )
            yield Pair(*columns)
        self._cache.check(self._path, self._facts)
