"""Published and reproduced scores: the rows of `conf/results.yaml`."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError
from nmt.config import checked_dataclass, from_mapping, load_values
from nmt.metrics.scores import METRIC_NAMES
from nmt.runs.seeds import Spread


@checked_dataclass
class Band:
    """Accepted range of the mean over the seeds, and the mean when the range was set."""

    mean: float = 0.0
    lowest: float = 0.0
    highest: float = 0.0


@checked_dataclass
class Anchor:
    """A score published by others, shown for comparison only."""

    score: float = 0.0
    form: str = ""
    citation: str = ""


@checked_dataclass
class Data:
    """Where the text can be obtained, and the SHA-256 of its files by name."""

    origin: str = ""
    files: dict[str, str] = field(default_factory=dict)


@checked_dataclass
class Result:
    """One row: a recipe, its data and the score it is expected to reach.

    The head of `conf/results.yaml` explains the keys.
    """

    name: str = ""
    about: str = ""
    experiment: str = ""
    overrides: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    test_set: str = ""
    metric: str = ""
    expected: Band | None = None
    data: Data = field(default_factory=Data)
    anchors: list[Anchor] = field(default_factory=list)
    measured: list[dict[str, Any]] = field(default_factory=list)
    not_measured: str = ""

    def __post_init__(self) -> None:
        band = self.expected
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise UserError(f"seeds: {self.seeds} must be distinct non-negative integers")
        if self.metric not in METRIC_NAMES:
            raise UserError(f"metric: {self.metric} is not one of {', '.join(METRIC_NAMES)}")
        if band is not None and not band.lowest <= band.mean <= band.highest:
            raise UserError("expected: needs lowest <= mean <= highest")

    def require_band(self) -> Band:
        """Return the accepted range; UserError if the row has none."""
        if self.expected is None:
            raise UserError(f"{self.name} has no expected score yet; add measure=true")
        return self.expected

    def judge(self, spread: Spread) -> tuple[bool, str]:
        """Return whether the mean over seeds is accepted, and a sentence that says so."""
        band = self.require_band()
        seeds = f"{len(spread.values)} seed{'' if len(spread.values) == 1 else 's'}"
        mean = f"mean {METRIC_NAMES[self.metric]} {spread.mean:.2f} of {seeds}"
        is_accepted = band.lowest <= spread.mean <= band.highest
        verdict = "reproduced" if is_accepted else "not reproduced"
        return is_accepted, f"{verdict}: {mean}; accepted: {band.lowest} to {band.highest}"


def read_results(path: Path) -> dict[str, Result]:
    """Read all rows by name."""
    results: dict[str, Result] = {}
    for key, row in load_values(path).items():
        name = str(key)
        origin = f"{path}: {name}"
        if not isinstance(row, Mapping):
            raise UserError(f"{origin} must be a mapping of keys, as the other rows are")
        results[name] = from_mapping(Result, {"name": name, **row}, origin)
    return results


def find_result(path: Path, name: str) -> Result:
    """Read one row; UserError if there is none of this name, or the file is invalid."""
    results = read_results(path)
    if name not in results:
        raise UserError(f"result={name} is unknown; choose one of {', '.join(results)} ({path})")
    return results[name]
