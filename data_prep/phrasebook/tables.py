"""Read tab-separated tables, with error messages that name the cell and the correction."""

from collections.abc import Iterator
from pathlib import Path


class LexiconError(ValueError):
    """A table of the lexicon has a value that the grammar cannot use."""


class Row:
    """One line of a table; errors in its cells name file, line and column."""

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        """Store the cells with their position, for messages."""
        self.path, self.line, self.cells = path, line, cells

    def error(self, column: str, advice: str) -> LexiconError:
        """An error in a cell, with advice on how to correct it."""
        value = self.cells.get(column, "")
        return LexiconError(
            f"{self.path.name}, line {self.line}, column {column}: {value!r}: {advice}"
        )

    def word(self, column: str) -> str:
        """A cell that must not be empty."""
        value = self.cells[column].strip()
        if not value:
            raise self.error(column, "write a word here, or - where there is none")
        return value

    def optional(self, column: str) -> str:
        """A cell where ``-`` means that it is empty."""
        value = self.word(column)
        return "" if value == "-" else value

    def one_of(self, column: str, allowed: frozenset[str]) -> str:
        """A cell with one of a few values."""
        value = self.word(column)
        if value not in allowed:
            raise self.error(column, f"write one of {', '.join(sorted(allowed))}")
        return value

    def many(self, column: str, separator: str | None = "|") -> tuple[str, ...]:
        """A cell with several values; ``-`` means none."""
        return tuple(part.strip() for part in self.optional(column).split(separator) if part)


def read_table(path: Path, columns: str) -> Iterator[Row]:
    """Read one tab-separated table.

    Args:
        path: The file; its first line that is not a comment names the columns.
        columns: The names that the table must have, separated by spaces.

    Yields:
        The rows, in the order of the file.

    Raises:
        LexiconError: If the file is missing, its columns are not `columns`, or a row has another
            number of cells.
    """
    if not path.is_file():
        raise LexiconError(f"{path}: this table of the lexicon is missing")
    expected = columns.split()
    header: list[str] | None = None
    for line, text in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        cells = text.split("\t")
        if header is None:
            header = [cell.strip() for cell in cells]
            if header != expected:
                raise LexiconError(f"{path.name}, line {line}: the columns must be {expected}")
        elif len(cells) != len(header):
            raise LexiconError(
                f"{path.name}, line {line}: {len(cells)} cells, but there are "
                f"{len(header)} columns; separate cells by one tab each"
            )
        else:
            yield Row(path, line, dict(zip(header, cells, strict=True)))


def check_unique(path: Path, columns: str, keys: tuple[str, ...]) -> None:
    """Check that no two rows agree in all of ``keys``: a word has one translation."""
    seen: dict[tuple[str, ...], int] = {}
    for row in read_table(path, columns):
        key = tuple(row.word(column) for column in keys)
        if key in seen:
            advice = f"line {seen[key]} has this word already; a word may occur only once"
            raise row.error(keys[0], advice)
        seen[key] = row.line
