"""Sentence pairs from a table: TSV, CSV or another separator, with or without a header.

The separator, quotes and the header are detected from the first rows, and said in one line. The
header, or `corpus.columns`, names the columns of source and target; without either, these are the
first two columns, and the third one is the score if it has numbers.
"""

import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from data_prep.clean import Pair
from data_prep.manifest import FactsCache
from data_prep.names import side_of
from data_prep.readers import Reader, scored
from data_prep.text_files import MAX_LINE_BYTES, BadUnit, first_units, iterate_units, plain_name
from nmt.base.errors import UserError
from nmt.config import CorpusConfig

_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
_THREE_BARS = "|||"
"""The separator of word aligners and of Moses, which has no quotes."""
_MAX_ROW_LINES = 100
"""A quoted cell may have line feeds; a row of more lines than these has an unclosed quote."""

_SCORE = "score"
_QUOTED_CELL = re.compile(r'"(?:[^"]|"")*"')
_MOST = 0.9

Row = tuple[int, list[str]]
"""The line of a row, and its cells."""


class Columns(NamedTuple):
    """The columns of a table, numbered from 0, and whether the first row is a header."""

    source: int
    target: int
    score: int | None
    with_header: bool


class TableReader(Reader):
    """The rows of a table; `report` receives a line with what was detected.

    Raises:
        UserError: the columns are unclear, or `corpus.columns` are not those of the table.
    """

    def __init__(
        self, path: Path, config: CorpusConfig, cache: FactsCache, report: Callable[[str], None]
    ) -> None:
        super().__init__([path], cache)
        self._path, self._wanted = path, config.columns
        self._languages = config.languages
        lines = [str(line).strip("\ufeff\r") for line in first_units(path)]
        is_csv = plain_name(path).lower().endswith(".csv")
        self._separator = self._find_separator(list(filter(None, lines)), is_csv)
        is_tsv = self._separator == "\t"
        self._is_quoted = _is_quoted(lines) if is_tsv else self._separator != _THREE_BARS
        first_rows = self._rows(first_units(path))
        rows = [row[1] for row in first_rows if not isinstance(row, BadUnit)]
        self._columns = self._find_columns([row for row in rows if any(row)])
        self.num_pairs = self._facts[0].num_lines - self._columns.with_header
        report(f"{path}: {self._description(max(map(len, rows), default=2))}")

    def identity(self) -> list[Any]:
        """Facts of the file, and how it is read."""
        return [*super().identity(), self._separator, self._is_quoted, *self._columns]

    def _description(self, width: int) -> str:
        columns = self._columns
        named = {"source": columns.source, "target": columns.target, _SCORE: columns.score}
        used = {name: index for name, index in named.items() if index is not None}
        texts = [f"{name} in column {index + 1}" for name, index in used.items()]
        return (
            f"columns separated by {_SEPARATORS.get(self._separator, 'three bars')}"
            + (", with quotes" if self._is_quoted else "")
            + (", with a header" if columns.with_header else "")
            + f"; {', '.join(texts)}"
            + ("; other columns are ignored" if width > len(used) else "")
        )

    def _find_separator(self, lines: list[str], is_csv: bool) -> str:
        def share(separator: str) -> tuple[bool, int]:
            rows = [_parse(line, separator) or [] for line in lines]
            [(width, count)] = Counter(map(len, rows)).most_common(1) or [(0, 0)]
            return bool(rows and self._sides(rows[0])), count if width > 1 else 0

        if lines and sum(_THREE_BARS in line for line in lines) >= _MOST * len(lines):
            return _THREE_BARS
        if not lines or (not is_csv and any("\t" in line for line in lines)):
            return "\t"
        best = max(_SEPARATORS, key=share)
        # Prose has commas, too; only a header shows that another file than CSV has columns.
        return best if is_csv or share(best)[0] else "\t"

    def _sides(self, cells: list[str]) -> dict[int, int]:
        """Return the columns of source and target by side if the cells name both; else {}."""
        found = [side_of(cell.strip(), self._languages) for cell in cells]
        sides = [(side[0], index) for index, side in enumerate(found) if side]
        return dict(sides) if sorted(side for side, _ in sides) == [0, 1] else {}

    def _find_columns(self, rows: list[list[str]]) -> Columns:
        first = [cell.strip().lower() for cell in rows[0]] if rows else []
        sides = self._sides(first)
        if self._wanted:
            return self._find_wanted(first, bool(sides))
        if sides:
            score = first.index(_SCORE) if _SCORE in first else None
            return Columns(sides[0], sides[1], score, True)
        if max(map(len, rows), default=2) < 2:
            raise UserError(
                f"{self._path}: no line has a separator of columns, such as a tab; of two aligned"
                " files, give the folder or the beginning that their paths share"
            )
        if len(first) > 3:
            raise UserError(
                f"{self._path}: line 1 has {len(first)} columns; name those of source and target by"
                " their numbers, such as corpus.columns=[1,2], or by a header"
            )
        third = [scored("", "", row[2], 0) for row in rows if len(row) > 2]
        num_scores = sum(isinstance(one, Pair) for one in third)
        return Columns(0, 1, 2 if num_scores > len(third) // 2 else None, False)

    def _find_wanted(self, first: list[str], names_both: bool) -> Columns:
        wanted = [name.lower() for name in self._wanted]
        sides = self._sides(wanted)
        if all(name.isdecimal() for name in wanted):
            indices, with_header = [int(name) - 1 for name in wanted], names_both
        else:
            with_header = set(wanted) <= set(first)
            indices = [first.index(name) if with_header else n for n, name in enumerate(wanted)]
        others = [n for n in range(len(wanted)) if n not in sides.values()] if sides else [2]
        order = [sides[0], sides[1], *others] if sides else [0, 1, 2]
        is_known = with_header or sides or wanted[0].isdecimal()
        if not is_known or not 0 <= min(indices) <= max(indices) < max(len(first), 1):
            raise UserError(
                f"{self._path}: corpus.columns=[{','.join(self._wanted)}]: line 1 has the columns"
                f" {' | '.join(first)[:200]}; name two of them, or give their numbers from 1"
            )
        chosen = [indices[n] for n in order if n < len(indices)]
        score = chosen[2] if len(chosen) > 2 and _is_score(wanted[order[2]]) else None
        return Columns(chosen[0], chosen[1], score, with_header)

    def _rows(self, lines: Iterable[str | BadUnit]) -> Iterator[Row | BadUnit]:
        units = iter(enumerate(lines, start=1))
        waiting: deque[tuple[int, str | BadUnit]] = deque()
        while first := waiting.popleft() if waiting else next(units, None):
            number, line = first
            if isinstance(line, BadUnit):
                yield line
                continue
            line = line.removeprefix("\ufeff") if number == 1 else line
            if not self._is_quoted:
                yield number, line.split(self._separator)
                continue
            more: list[tuple[int, str | BadUnit]] = []
            num_quotes, size = line.count('"'), len(line)
            while num_quotes % 2 and len(more) < _MAX_ROW_LINES and size < MAX_LINE_BYTES:
                if (following := waiting.popleft() if waiting else next(units, None)) is None:
                    break
                more.append(following)
                num_quotes += str(following[1]).count('"')
                size += len(str(following[1]))
            cells = self._joined(line, [str(text) for _, text in more])
            if cells is None:
                waiting.extendleft(reversed(more))
            yield (number, cells) if cells else BadUnit("quotes that do not match", number, line)

    def _joined(self, line: str, more: list[str]) -> list[str] | None:
        """Return the cells of a row of several lines; None if its quotes do not match."""
        # Another row inside means that a quote is missing.
        if any(
            re.fullmatch(rf'".*"{re.escape(self._separator)}".*"\r?', text) for text in more[:-1]
        ):
            return None
        return _parse("\n".join((line.rstrip("\r"), *more)), self._separator)

    def _read(self) -> Iterator[Pair | BadUnit]:
        source, target, score, with_header = self._columns
        most = None if with_header or self._wanted else 3
        is_first = with_header
        for row in self._rows(iterate_units(self._path)):
            if isinstance(row, BadUnit):
                yield row
                continue
            line, cells = row
            if not any(cells):
                yield Pair("", "")
            elif is_first:
                is_first = False
            elif len(cells) <= max(source, target) or len(cells) > (most or len(cells)):
                yield BadUnit("another number of columns", line, " | ".join(cells))
            elif score is not None and score < len(cells):
                yield scored(cells[source], cells[target], cells[score], line)
            else:
                yield Pair(cells[source], cells[target])


def _is_score(name: str) -> bool:
    return name == _SCORE or name.isdecimal()


def _parse(line: str, separator: str) -> list[str] | None:
    try:
        return next(csv.reader([line.rstrip("\r")], delimiter=separator, strict=True), [])
    except csv.Error:
        return None


def _is_quoted(lines: list[str]) -> bool:
    """Return whether the quotes of a table with tabs are those of the format, not of the text.

    They are if all cells have them, or if those of the cells with a quote or a comma do.
    """
    cells = [cell for line in lines for cell in line.split("\t")]
    quoted = [cell for cell in cells if cell.startswith('"')]
    whole = [cell for cell in quoted if _QUOTED_CELL.fullmatch(cell)]
    if not whole or len(whole) < _MOST * len(quoted):
        return False
    with_comma = [cell for cell in cells if "," in cell]
    return (
        len(whole) >= _MOST * len(cells)
        or any('""' in cell[1:-1] for cell in whole)
        or (bool(with_comma) and all(cell in set(whole) for cell in with_comma))
    )
