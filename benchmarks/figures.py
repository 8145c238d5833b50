"""Measured figures with their limits, and the dated JSON files that benchmarks write."""

import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from nmt.base.files import write_json
from nmt.base.system import commit, processor_name

RESULTS_FOLDER = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One measured value and the limits it has to keep.

    Attributes:
        name: what was measured.
        value: None if it could not be measured.
        unit: unit of the value.
        at_least: lower limit, if there is one.
        at_most: upper limit, if there is one.
        note: why there is no value, or how the value was obtained.
        is_skipped: whether the machine cannot measure it, which is not a failure.
    """

    name: str
    value: float | None
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    is_skipped: bool = False

    @property
    def status(self) -> str:
        """`pass`, `fail` or `skip`; a value without limits passes."""
        if self.is_skipped:
            return "skip"
        if self.value is None:
            return "fail"
        # Written so that NaN fails.
        is_high_enough = self.at_least is None or self.value >= self.at_least
        is_low_enough = self.at_most is None or self.value <= self.at_most
        return "pass" if is_high_enough and is_low_enough else "fail"

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value:,.6g} {self.unit}"
        return f"{self.name}:{value} {self.status} {self.note}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """Return value, unit, limits and note, as far as they are set, and the status."""
        found = {key: value for key, value in asdict(self).items() if value not in (None, "")}
        del found["name"], found["is_skipped"]
        return {**found, "status": self.status}


def figures_json(figures: Sequence[Figure]) -> dict[str, dict[str, Any]]:
    """Return the figures by name."""
    return {figure.name: figure.to_json() for figure in figures}


def print_figures(title: str, figures: Sequence[Figure]) -> None:
    """Print one line per figure, with its limits and its status."""
    rows = []
    for figure in figures:
        limits = [f"≥ {figure.at_least:,.6g}" if figure.at_least is not None else ""]
        limits += [f"≤ {figure.at_most:,.6g}" if figure.at_most is not None else ""]
        value = "" if figure.value is None else f"{figure.value:,.4g}"
        if figure.value is not None and abs(figure.value) >= 1000:
            value = f"{figure.value:,.0f}"
        limit = " ".join(limits).strip()
        rows.append([figure.name, value, limit, figure.unit, figure.status, figure.note])
    print_table(title, ["", "measured", "limit", "unit", "result", "note"], rows)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stderr; all columns but the first and `note` are right-justified."""
    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        is_text = index == 0 or name == "note"
        table.add_column(name, justify="left" if is_text else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    Console(stderr=True, width=None if sys.stderr.isatty() else 120).print(table)


def write_result(
    name: str, result: dict[str, Any], path: Path | None = None, is_final: bool = True
) -> None:
    """Write a result with date, commit and machine, and print its path if it is final.

    Args:
        name: beginning of the file name; the date follows.
        result: what was measured.
        path: the file, instead of a dated one in `benchmarks/results`.
        is_final: whether the file will not be written again.
    """
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    heading = {
        "date": date,
        "commit": commit(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "processor": processor_name(),
    }
    path = path or RESULTS_FOLDER / f"{name}-{date}.json"
    write_json(path, heading | result)
    if is_final:
        print(f"written: {path}", file=sys.stderr)
