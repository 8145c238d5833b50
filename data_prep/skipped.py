"""Units of files that could not be read: counted, shown and limited."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from data_prep.text_files import BadUnit

_NUM_FIRST = 3
_CHARACTERS = 80


@dataclass
class SkippedKind:
    """Number of bad units of a kind, and the first ones: file, line and text."""

    units: int = 0
    first: list[str] = field(default_factory=list)


@dataclass
class Skipped:
    """The bad units of a source, by their kind, and the number of all units."""

    total: int = 0
    kinds: dict[str, SkippedKind] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """Number of bad units."""
        return sum(kind.units for kind in self.kinds.values())

    def add(self, unit: BadUnit, path: Path) -> None:
        """Add a bad unit."""
        kind = self.kinds.setdefault(unit.kind, SkippedKind())
        kind.units += 1
        if len(kind.first) < _NUM_FIRST:
            text = " ".join(unit.text[:_CHARACTERS].split())
            kind.first.append(f"{path}: line {unit.line}: {text}")

    def lines(self) -> Iterator[str]:
        """Describe each kind with its first unit."""
        for name, kind in self.kinds.items():
            yield f"{kind.units:,} of {self.total:,} units skipped: {name}; {kind.first[0]}"
