"""Sentence pairs from local text: aligned files, or one file with two or three columns.

All files except additional references may be compressed (`.gz`, `.bz2`, `.xz`, `.zst`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import starmap
from pathlib import Path
from typing import Any

from data_prep import names
from data_prep.clean import Pair, ScoredPair
from data_prep.manifest import FactsCache
from data_prep.protocol import TRAIN, VALID, Source
from data_prep.text_files import is_archive, iterate_text, plain_name
from nmt.base.errors import UserError
from nmt.base.files import check_aligned, is_plain_name, read_lines
from nmt.config import CorpusConfig
from nmt.data.corpus import more_reference_paths

_SCORES = "score"
_NUM_NAMES = 10
_IWSLT = "train.tags."
"""In these files of the IWSLT, lines with titles, speakers and addresses begin with a tag."""


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
        paths: files of the source and the target language, then that of the scores, if any.
        cache: sizes, hashes and numbers of lines of files.
        key: the settings that name the files, for error messages.

    Raises:
        UserError: a file is missing, the numbers of lines differ, or the files are empty.
    """

    def __init__(self, paths: Sequence[Path], cache: FactsCache, key: str) -> None:
        self.paths = list(paths)
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
        if _IWSLT in self.paths[0].name:
            yield from (Pair(*each[:2]) for each in lines if not each[0].startswith("<"))
        elif len(self.paths) == 2:
            yield from starmap(Pair, lines)
        else:
            for number, (source, target, score) in enumerate(lines, start=1):
                value = parse_score(score, self.paths[2], number)
                yield ScoredPair.of(source, target, value)
        for path, facts in zip(self.paths, self._facts, strict=True):
            self._cache.check(path, facts)


class FolderSource(Source):
    """A folder of aligned text: `<split>.<language>`, one sentence per line.

    `data_prep.names` lists the names of languages and splits. The training text may be in parts,
    `train.<part>.<language>`, which are read in the order of their names; without `train`, it is
    all text whose name is not that of a validation or test set. The other splits that have both
    languages are test sets; files of other languages are ignored. A test set may have additional
    references, `<split>.<target language>.1` and so on. `corpus.path` may also be the beginning of
    the names of two such files.
    """

    def __init__(
        self, config: CorpusConfig, facts: FactsCache, report: Callable[[str], None]
    ) -> None:
        path = Path(config.path)
        self._folder = path if path.is_dir() else path.parent
        self._languages = (config.source_language, config.target_language)
        self._facts = facts
        self._key = f"corpus.path={config.path} with corpus.direction={config.direction}"
        self._found = self._find_files()
        if path.is_dir():
            splits = self._find_splits(report)
        elif path.name in self._found:
            splits = {TRAIN: [path.name]}
        else:
            raise UserError(
                f"corpus.path={config.path} is neither a folder nor a file; name a folder with"
                f" {TRAIN}.{self._languages[0]} and {TRAIN}.{self._languages[1]}, the common"
                " beginning of two such files, a TMX file, or a file with one pair per line,"
                " separated by a tab"
            )
        self._files = {
            split: {name: self._open(name) for name in names} for split, names in splits.items()
        }
        for split in self._files:
            counts = {path: facts.facts(path).num_lines for path in self._more_paths(split)}
            if counts:
                [files] = self._files[split].values()
                check_aligned({files.paths[0]: files.num_pairs, **counts})

    def _find_files(self) -> dict[str, list[Path]]:
        """Return the files of source and target by the common part of their names.

        The path of a missing side is the expected one.
        """
        ranked: dict[str, tuple[list[tuple[int, Path]], ...]] = {}
        for path in sorted(self._folder.iterdir() if self._folder.is_dir() else ()):
            name = None if path.name.startswith(".") else self._split_name(path)
            if name and path.is_file():
                ranked.setdefault(name.base, ([], []))[name.side].append((name.rank, path))
        found = {}
        for base, sides in ranked.items():
            found[base] = [self._folder / f"{base}.{code}" for code in self._languages]
            for side, files in enumerate(sides):
                best = [path for rank, path in files if rank == min(files)[0]]
                if len(best) > 1:
                    raise UserError(f"{best[0]} and {best[1]} both exist; remove one of them")
                found[base][side : side + 1] = best or [found[base][side]]
        return found

    def _split_name(self, path: Path) -> names.FileName | None:
        return names.split_name(plain_name(path), self._languages)

    def _find_splits(self, report: Callable[[str], None]) -> dict[str, list[str]]:
        """Return the files of each split, by the common part of their names; report surprises."""
        both = sorted(base for base, paths in self._found.items() if all(map(Path.exists, paths)))
        roles = {base: names.role(base) for base in self._found}
        train = sorted(base for base in roles if roles[base] == TRAIN)
        # Half of `train` or `valid` is an error; half of another split is not used.
        train = train or [base for base in both if not roles[base] or len(both) == 1] or [TRAIN]
        others = [base for base in both if base not in train]
        valid = sorted((base for base in others if roles[base] == VALID), key=names.valid_order)
        if VALID in roles and VALID not in train:
            valid = [VALID]
        tests = [base for base in others if base not in valid[:1]]
        for base in tests:
            if not is_plain_name(base):
                raise UserError(
                    f"{self._folder}: the split {base!r} has a name with control characters or"
                    " bytes that are not UTF-8; rename its files"
                )
        splits = {TRAIN: train} | ({VALID: valid[:1]} if valid else {}) | {t: [t] for t in tests}
        unused = self._unused([*train, *valid[:1], *tests])
        is_plain = all(base.startswith(TRAIN) for base in train) and valid[:1] in ([], [VALID])
        if unused or not is_plain:
            used = [f"{split} = {' + '.join(bases)}" for split, bases in splits.items()]
            unused_text = f"; not used: {', '.join(unused)}" if unused else ""
            report(f"{self._folder}: {', '.join(used)}{unused_text}")
        return splits

    def _unused(self, used: list[str]) -> list[str]:
        """Return the names of what looks like text or like a split, but is not read."""
        left = [path for path in sorted(self._folder.iterdir()) if not path.name.startswith(".")]
        unused = [
            path.name
            for path in left
            if not (path.is_file() and _is_beside(plain_name(path), used))
            and not ((name := self._split_name(path)) and path.is_file() and name.base in used)
            and (name or names.role(path.name) or is_archive(path))
        ]
        return [*unused[:_NUM_NAMES], "…"] if len(unused) > _NUM_NAMES else unused

    def _open(self, base: str) -> AlignedFiles:
        paths = self._found.get(base)
        if paths is None:
            entries = ", ".join(sorted(path.name for path in self._folder.iterdir())[:_NUM_NAMES])
            raise UserError(
                f"{self._folder}: has no text for {self._key}; name the files"
                f" {' and '.join(f'{base}.{code}' for code in self._languages)}, and unpack"
                f" archives (it has {entries or 'no files'})"
            )
        scores = [
            path
            for path in self._folder.iterdir()
            if plain_name(path) == f"{base}.{_SCORES}" and path.is_file()
        ]
        return AlignedFiles([*paths, *scores], self._facts, self._key)

    def _more_paths(self, split: str) -> list[Path]:
        # Training and validation use one reference per sentence.
        return [] if split in (TRAIN, VALID) else more_reference_paths(self._found[split][1])

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


def _is_beside(name: str, used: list[str]) -> bool:
    """Return whether a file is another language, or the scores, of one of the splits `used`."""
    return any(name.startswith(f"{base}.") or name.endswith(f".{base}") for base in used)


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
