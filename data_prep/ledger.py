"""The ledger of a corpus: numbers and examples of the pairs dropped from each source."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.table import Table

from data_prep.filters import MEANINGS
from data_prep.manifest import Output
from data_prep.skipped import SkippedKind
from nmt.base.files import write_json
from nmt.base.tables import as_text, new_table

LEDGER_FILE = "ledger.json"

RATIO_BINS_PER_DOUBLING = 8

_MIN_KEPT = 0.1

KEPT = "kept"
"""Key of the kept pairs, beside the names of filters."""


@dataclass(frozen=True)
class Example:
    """A dropped or a kept pair, shortened, for the report."""

    source: str
    target: str
    detail: str = ""


@dataclass
class Amount:
    """Number of pairs, and number of words of their source sentences."""

    pairs: int = 0
    words: int = 0

    def add(self, other: "Amount") -> None:
        """Add another amount."""
        self.pairs += other.pairs
        self.words += other.words


@dataclass
class Taken(Amount):
    """Pairs dropped by a filter; `alone` counts those that no other filter dropped."""

    alone: int = 0


@dataclass
class SourceLedger:
    """Numbers of pairs of a source that were read, dropped and kept.

    Attributes:
        read: all pairs of the source.
        kept: pairs that passed all filters.
        filters: pairs dropped by each filter.
        overlaps: number of pairs dropped by two or more filters, by their names joined with `+`.
        examples: pairs dropped by each filter, and kept ones, sampled uniformly.
        skipped: units that could not be read, by kind; they are no pairs, and not in `read`.
    """

    read: Amount = field(default_factory=Amount)
    kept: Amount = field(default_factory=Amount)
    filters: dict[str, Taken] = field(default_factory=lambda: {name: Taken() for name in MEANINGS})
    overlaps: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)
    skipped: dict[str, SkippedKind] = field(default_factory=dict)

    @property
    def unread(self) -> dict[str, Amount]:
        """Amounts of the units that could not be read, for tables."""
        return {f"not read: {kind}": Amount(one.units) for kind, one in self.skipped.items()}

    def drop(self, combination: str, amount: Amount) -> None:
        """Add pairs that a combination of filters has dropped."""
        names = combination.split("+")
        for name in names:
            self.filters[name].add(amount)
        if len(names) == 1:
            self.filters[names[0]].alone += amount.pairs
        else:
            self.overlaps[combination] = self.overlaps.get(combination, 0) + amount.pairs


@dataclass
class CleaningSummary:
    """Result of cleaning a corpus.

    Attributes:
        ledger: numbers and examples, by source.
        oddest: the kept pairs with the most unusual ratios of their lengths.
        words: for each language, how many kept training sentences have each number of words.
        characters: number of characters of the kept training text, by language.
        ratios: number of kept pairs by log2(target / source) of their numbers of characters, times
            `RATIO_BINS_PER_DOUBLING` and rounded.
        num_pairs: pairs by split; for `train`, the kept ones.
        parts: number of training pairs of each part.
        outputs: size and hash of each file of the folder, by relative path.
    """

    ledger: dict[str, SourceLedger] = field(default_factory=dict)
    oddest: list[Example] = field(default_factory=list)
    words: dict[str, dict[int, int]] = field(default_factory=dict)
    characters: dict[str, int] = field(default_factory=dict)
    ratios: dict[int, int] = field(default_factory=dict)
    num_pairs: dict[str, int] = field(default_factory=dict)
    parts: list[int] = field(default_factory=list)
    outputs: dict[str, Output] = field(default_factory=dict)

    @property
    def num_read(self) -> int:
        """Training pairs read."""
        return sum(source.read.pairs for source in self.ledger.values())

    @property
    def num_kept(self) -> int:
        """Training pairs kept."""
        return sum(source.kept.pairs for source in self.ledger.values())

    @property
    def dropped(self) -> dict[str, int]:
        """Training pairs dropped by each filter; a pair may be dropped by several."""
        return {
            name: sum(source.filters[name].pairs for source in self.ledger.values())
            for name in MEANINGS
        }


def write_ledger(summary: CleaningSummary, path: Path) -> None:
    """Write the ledger with its examples as JSON."""
    write_json(
        path,
        {
            "sources": {name: asdict(source) for name, source in summary.ledger.items()},
            "oddest": [asdict(one) for one in summary.oddest],
        },
    )


def ledger_table(ledger: Mapping[str, SourceLedger]) -> Table:
    """Return the ledger as a table for the terminal: one row for each filter that dropped pairs."""
    columns = ("source", "", "pairs", "of pairs", "words", "of words", "only this")
    table = new_table("", *columns, texts=["source", ""])
    for name, source in ledger.items():
        rows = {"read": (source.read, ""), KEPT: (source.kept, "")}
        rows |= {key: (one, "") for key, one in source.unread.items()}
        rows |= {key: (one, f"{one.alone:,}") for key, one in source.filters.items() if one.pairs}
        for key, (amount, alone) in rows.items():
            cells = (
                f"{amount.pairs:,}",
                format_share(amount.pairs, source.read.pairs),
                f"{amount.words:,}",
                format_share(amount.words, source.read.words),
            )
            table.add_row(as_text(name if key == "read" else ""), key, *cells, alone)
    return table


def vanished(ledger: Mapping[str, SourceLedger]) -> Iterator[str]:
    """Yield a warning for each source of which less than a tenth is kept."""
    for name, source in ledger.items():
        if source.kept.pairs < _MIN_KEPT * source.read.pairs:
            reason, taken = max(source.filters.items(), key=lambda one: one[1].pairs)
            yield (
                f"warning: {source.kept.pairs:,} of {source.read.pairs:,} pairs of {name} are kept;"
                f" {taken.pairs:,} were dropped by the filter {reason} ({MEANINGS[reason]}); of"
                " equal pairs, that of the source with the largest weight in corpus.mixing is kept"
            )


def format_share(part: int, whole: int) -> str:
    """Format a share in per cent."""
    return f"{100 * part / whole:.2f} %" if whole else "–"
