"""Sentence pairs from local text: aligned files, or one file with two or three columns.

All files except additional references may be compressed (`.gz`, `.xz`, `.zst`).
"""

import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

from data_prep.clean import Pair, ScoredPair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, VALID, Source
from data_prep.text_files import find_file, is_file, iterate_text, plain_name
from nmt.base.errors import UserError
from nmt.base.files import check_aligned, is_plain_name, read_lines
from nmt.config import CorpusConfig
from nmt.data.corpus import more_reference_paths

_SCORES = "score"


def parse_score(text: str, path: Path, number: int) -> float:
    """Return the score on line `number` of a file; UserError if it is not a finite number."""
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(f"{path}: line {number}: {text[:40]!r} is not a score (a finite number)")
    return score


class AlignedFiles:
    """Two files of aligned lines: line n of the second is the translation of line n of the first.

    Args:
        paths: files of the source and the target language. A third file beside them,
            `<name>.score`, may have the scores of the pairs.
        cache: sizes, hashes and numbers of lines of files.
        key: the settings that name the files, for error messages.

    Raises:
        UserError: a file is missing, the numbers of lines differ, or the files are empty.
    """

    def __init__(self, paths: tuple[Path, Path], cache: FactsCache, key: str) -> None:
        self.paths = [find_file(path) for path in paths]
        if is_file(scores := paths[0].with_name(f"{paths[0].stem}.{_SCORES}")):
            self.paths.append(find_file(scores))
        for path in self.paths:
            if not path.exists():
                raise UserError(f"{path}: no such file; {key} needs it, with one sentence per line")
        self._cache = cache
        self._facts = [cache.facts(path) for path in self.paths]
        self.num_pairs = self._facts[0].num_lines
        # Check the encoding first, because the number of lines is wrong in UTF-16, for example.
        for path in self.paths:
            next(iterate_text(path), "")
        check_aligned({path: f.num_lines for path, f in zip(self.paths, self._facts, strict=True)})
        if not self.num_pairs:
            source, target, *_ = self.paths
            raise UserError(f"{source} and {target} are empty; {key} needs sentences in them")

    def identity(self) -> list[dict[str, Any]]:
        """Size, hash and number of lines of each file."""
        return [asdict(facts) for facts in self._facts]

    def pairs(self) -> Iterator[Pair]:
        """The pairs of lines, with their scores if any; UserError if a file changes meanwhile."""
        lines = zip(*map(iterate_text, self.paths), strict=False)
        if len(self.paths) == 2:
            yield from starmap(Pair, lines)
        else:
            for number, (source, target, score) in enumerate(lines, start=1):
                value = parse_score(score, self.paths[2], number)
                yield ScoredPair.of(source, target, value)
        for path, facts in zip(self.paths, self._facts, strict=True):
            self._cache.check(path, facts)


class FolderSource(Source):
    """A folder of aligned text: `<split>.<language>`, one sentence per line.

    The training text may be in parts, `train.<part>.<language>`, which are read in the order of
    their names. Besides `train` and `valid`, every split that has both languages is a test set;
    files of other languages are ignored. A test set may have additional references,
    `<split>.<target language>.1` and so on. If there is no `train`, a single split is the training
    text, whatever its name. `corpus.path` may also be the beginning of the names of two such files.
    """

    def __init__(self, config: CorpusConfig, facts: FactsCache) -> None:
        path = Path(config.path)
        self._folder = path if path.is_dir() else path.parent
        self._languages = (config.source_language, config.target_language)
        self._facts = facts
        splits = self._find_splits() if path.is_dir() else {TRAIN: [path.name]}
        if not path.is_dir() and not any(map(is_file, self._paths(path.name))):
            raise UserError(
                f"corpus.path={config.path} is neither a folder nor a file; name a folder with"
                f" {TRAIN}.{self._languages[0]} and {TRAIN}.{self._languages[1]}, the common"
                " beginning of two such files, a TMX file, or a file with one pair per line,"
                " separated by a tab"
            )
        key = f"corpus.path={config.path} with corpus.direction={config.direction}"
        self._files = {
            split: {name: AlignedFiles(self._paths(name), facts, key) for name in names}
            for split, names in splits.items()
        }
        for split in self._files:
            counts = {path: facts.facts(path).num_lines for path in self._more_paths(split)}
            if counts:
                [files] = self._files[split].values()
                check_aligned({files.paths[0]: files.num_pairs, **counts})

    def _find_splits(self) -> dict[str, list[str]]:
        """Return the names of the files of each split, without the ending `.<language>`."""
        names = [self._names(language) for language in self._languages]
        either, both = names[0] | names[1], names[0] & names[1]
        train = sorted(name for name in either if name.partition(".")[0] == TRAIN)
        if not train:
            train = list(both) if len(both) == 1 else [TRAIN]
        # `train` and `valid` with one language only are errors; other such files are ignored.
        valid = [VALID] * (VALID in either and train != [VALID])
        tests = sorted(both - {*train, VALID})
        for name in tests:
            if not is_plain_name(name):
                raise UserError(
                    f"{self._folder}: the split {name!r} has a name with control characters or"
                    " bytes that are not UTF-8; rename its files"
                )
        return {TRAIN: train} | {split: [split] for split in (*valid, *tests)}

    def _names(self, language: str) -> set[str]:
        """Names of the files of a language, without the ending `.<language>`."""
        names = (plain_name(path) for path in self._folder.iterdir() if path.is_file())
        ending = f".{language}"
        return {
            name.removesuffix(ending)
            for name in names
            if name.endswith(ending) and not name.startswith(".")
        }

    def _paths(self, name: str) -> tuple[Path, Path]:
        source, target = (self._folder / f"{name}.{language}" for language in self._languages)
        return source, target

    def _more_paths(self, split: str) -> list[Path]:
        # Training and validation use one reference per sentence.
        return [] if split in (TRAIN, VALID) else more_reference_paths(self._paths(split)[1])

    def splits(self) -> list[str]:
        """`train`, `valid` if the folder has it, then the test sets by name."""
        return list(self._files)

    def identity(self) -> dict[str, Any]:
        """Facts of each file, by split, part of the training text, or name of the references."""
        files: dict[str, Any] = {
            split if len(parts) == 1 else name: dict(
                zip((*self._languages, _SCORES), part.identity(), strict=False)
            )
            for split, parts in self._files.items()
            for name, part in parts.items()
        }
        for split in self._files:
            for path in self._more_paths(split):
                files[path.name] = asdict(self._facts.facts(path))
        return {"source": "folder", "files": files}

    def num_pairs(self, split: str) -> int:
        """Number of lines of each language."""
        return sum(part.num_pairs for part in self._files[split].values())

    def pairs(self, split: str) -> Iterator[Pair]:
        """Lines of both sides."""
        for part in self._files[split].values():
            yield from part.pairs()

    def more_references(self, split: str) -> list[list[str]]:
        """Lines of `<split>.<target language>.1` and so on."""
        return [read_lines(path) for path in self._more_paths(split)]


class TableSource(Source):
    """A file of training pairs, one per line: source, target, optional score, with tabs between."""

    def __init__(self, path: Path, facts: FactsCache) -> None:
        self._path = path
        self._cache = facts
        self._facts = facts.facts(path)

    def splits(self) -> list[str]:
        """`train` only."""
        return [TRAIN]

    def identity(self) -> dict[str, Any]:
        """Facts of the file."""
        return {"source": "table", "file": asdict(self._facts)}

    def num_pairs(self, split: str) -> int:
        """Number of lines."""
        assert split == TRAIN
        return self._facts.num_lines

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pair of each line, and its score if there is one.

        Raises:
            UserError: a line has neither two nor three columns, a score is not a number, or the
                file changes meanwhile.
        """
        assert split == TRAIN
        for number, line in enumerate(iterate_text(self._path), start=1):
            columns = line.split("\t")
            if len(columns) not in (2, 3):
                raise UserError(
                    f"{self._path}: line {number} has {len(columns)} columns, separated by tabs;"
                    " each line needs 2 (source and translation) or 3 (with a score)"
                )
            source, target, *rest = columns
            if rest:
                score = parse_score(rest[0], self._path, number)
                yield ScoredPair.of(source, target, score)
            else:
                yield Pair(source, target)
        self._cache.check(self._path, self._facts)
