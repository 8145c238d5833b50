"""Reading sentence pairs from one file, or from two aligned ones.

A unit that cannot be read, such as a line with too few columns, does not stop a file: it is
reported as a `BadUnit` in its place. `data_prep.local_sources` counts these units.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any

from data_prep.clean import Pair, ScoredPair
from data_prep.manifest import FactsCache, FileFacts
from data_prep.text_files import BadUnit, iterate_text
from nmt.base.errors import UserError
from nmt.base.files import check_aligned

READERS_VERSION = 1
"""Part of the fingerprint: raise it whenever other text is read from the same file."""

_IWSLT = "train.tags."
"""In these files of the IWSLT, lines with titles, speakers and addresses begin with a tag."""


class Reader(ABC):
    """The pairs of a file.

    Attributes:
        paths: the files that are read.
        num_pairs: number of pairs; None if it is only known after reading them.
        has_lines: whether the files are read line by line, so that lines have a maximum length.

    Args:
        paths: the files that are read.
        cache: sizes, hashes and numbers of lines of files.
    """

    num_pairs: int | None = None
    has_lines = True

    def __init__(self, paths: Sequence[Path], cache: FactsCache) -> None:
        self.paths, self._cache = list(paths), cache

    @cached_property
    def _facts(self) -> list[FileFacts]:
        # Not before the first lines are read: a line without end is refused there.
        return [self._cache.facts(path, self.has_lines) for path in self.paths]

    def identity(self) -> list[Any]:
        """Size, hash and number of lines of each file."""
        return [READERS_VERSION, *map(asdict, self._facts)]

    def pairs(self) -> Iterator[Pair | BadUnit]:
        """The pairs in their order; ChangedError if a file changes meanwhile."""
        known = self._facts
        yield from self._read()
        for path, facts in zip(self.paths, known, strict=True):
            self._cache.check(path, facts)

    @abstractmethod
    def _read(self) -> Iterator[Pair | BadUnit]: ...


class AlignedFiles(Reader):
    """Two files of aligned lines: line n of the second is the translation of line n of the first.

    Args:
        paths: files of the source and the target language, then that of the scores, if any.
        cache: sizes, hashes and numbers of lines of files.
        key: the settings that name the files, for error messages.

    Raises:
        UserError: a file is missing, the numbers of lines differ, or the files are empty.
    """

    def __init__(self, paths: Sequence[Path], cache: FactsCache, key: str) -> None:
        for path in paths:
            if not path.exists():
                raise UserError(f"{path}: no such file; {key} needs it, with one sentence per line")
            # Check the encoding first: the number of lines is wrong in UTF-16, for example.
            next(iterate_text(path), "")
        super().__init__(paths, cache)
        num_lines = [facts.num_lines for facts in self._facts]
        check_aligned(dict(zip(self.paths, num_lines, strict=True)))
        self.num_pairs: int = num_lines[0]
        if not self.num_pairs:
            source, target, *_ = self.paths
            raise UserError(f"{source} and {target} are empty; {key} needs sentences in them")

    def _read(self) -> Iterator[Pair | BadUnit]:
        lines = zip(*map(iterate_text, self.paths), strict=False)
        if _IWSLT in self.paths[0].name:
            yield from (Pair(*each) for each in lines if not each[0].startswith("<"))
        elif len(self.paths) == 2:
            yield from starmap(Pair, lines)
        else:
            for number, (source, target, score) in enumerate(lines, start=1):
                yield scored(source, target, score, number)


def scored(source: str, target: str, score: str, line: int) -> Pair | BadUnit:
    """Return a pair with its score, or a bad unit if the score is not a finite number."""
    try:
        value = float(score)
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return ScoredPair.of(source, target, value)
    return BadUnit("the score is not a finite number", line, f"{source} | {score}")
