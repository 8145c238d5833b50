"""The table of published and reproduced figures: reading it, and holding a measurement to it.

A result is a row of `conf/results.yaml`: a recipe, the text it is trained on, and the band that the
mean over its seeds has to lie in. Every key has to be written; what is not known is null or empty.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from nmt.config import from_mapping, load_values
from nmt.errors import UserError
from nmt.evaluation.scores import METRIC_NAMES
from nmt.evaluation.seeds import Spread, in_words


@dataclass(frozen=True)
class Band:
    """What the mean over the seeds is expected to be."""

    mean: float = 0.0
    """The mean that was measured when the band was stated."""
    lowest: float = 0.0
    """The lowest mean that is accepted."""
    highest: float = 0.0
    """The highest mean that is accepted."""


@dataclass(frozen=True)
class Anchor:
    """A figure of others to hold ours against; it decides nothing."""

    score: float = 0.0
    """As it was published."""
    form: str = ""
    """How it was measured: metric, test set, and what differs from our metric."""
    citation: str = ""
    """Who published it, where."""


@dataclass(frozen=True)
class Measurement:
    """Figures that this program has reached."""

    date: str = ""
    """Day of the measurement, as 2026-11-21."""
    commit: str = ""
    """Of this program, when it trained."""
    hardware: str = ""
    """Processor or GPUs, processes and threads."""
    minutes: float = 0.0
    """Training a seed, validation included, on average; 0 where nobody noted it."""
    figures: dict[int, float] = field(default_factory=dict)
    """Score by seed."""


@dataclass(frozen=True)
class Data:
    """The text that a recipe is trained and scored on."""

    origin: str = ""
    """Where it comes from, for people who do not have it."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 by file name; empty for text that the configuration itself fetches."""


@dataclass(frozen=True)
class Recipe:
    """The plain keys of a row."""

    about: str = ""
    """One line: what it is and what it costs."""
    experiment: str = ""
    """A file of `conf/experiment`."""
    overrides: list[str] = field(default_factory=list)
    """In the form of the command line."""
    seeds: list[int] = field(default_factory=list)
    """Each is a run."""
    test_set: str = ""
    """The split that is scored."""
    metric: str = ""
    """Key in `scores.json`."""
    not_measured: str = ""
    """Why there are no figures of this program; empty where there are some."""


@dataclass(frozen=True)
class Result:
    """A row of the table."""

    name: str
    recipe: Recipe
    data: Data
    expected: Band | None
    anchors: tuple[Anchor, ...]
    measured: tuple[Measurement, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether a mean lies inside its band, and that in words."""

    is_inside: bool
    words: str


def read_results(path: Path) -> dict[str, Result]:
    """The rows of the table, by name.

    Raises:
        UserError: a key is missing, unknown or of the wrong type, or a row contradicts itself.
    """
    return {str(name): _result(str(name), row, path) for name, row in load_values(path).items()}


def find_result(path: Path, name: str) -> Result:
    """One row.

    Raises:
        UserError: there is none of this name, or the table is wrong.
    """
    results = read_results(path)
    if name not in results:
        asked = f"result={name} is none of" if name else "result= is missing: name one of"
        raise UserError(f"{asked} {', '.join(results)} ({path})")
    return results[name]


def judge(result: Result, spread: Spread) -> Verdict:
    """Hold the scores of the seeds against the row's band.

    Raises:
        UserError: no band is stated yet.
    """
    band = require_band(result)
    seeds = f"{len(spread.values)} seed{'' if len(spread.values) == 1 else 's'}"
    got = f"mean {METRIC_NAMES[result.recipe.metric]} {spread.mean:.2f} of {seeds}"
    if band.lowest <= spread.mean <= band.highest:
        inside = f"lies inside {band.lowest:.2f} to {band.highest:.2f}"
        return Verdict(True, f"reproduced: {got} {inside}")
    if spread.mean < band.lowest:
        outside = f"{band.lowest - spread.mean:.2f} below the lowest accepted, {band.lowest:.2f}"
    else:
        outside = f"{spread.mean - band.highest:.2f} above the highest accepted, {band.highest:.2f}"
    return Verdict(False, f"not reproduced: {got} lies {outside}")


def require_band(result: Result) -> Band:
    """The row's band.

    Raises:
        UserError: none is stated yet.
    """
    if result.expected is None:
        raise UserError(
            f"{result.name} has no band stated yet (expected: null), so nothing can pass or fail;"
            " measure=true trains it and records the figures"
        )
    return result.expected


def lines_about(result: Result) -> list[str]:
    """The anchors, and what was measured before, for people."""
    lines = [
        f"published: {anchor.score:g}, {anchor.form} ({anchor.citation})"
        for anchor in result.anchors
    ]
    for measurement in result.measured:
        spread = Spread(tuple(measurement.figures.values()))
        lines.append(
            f"measured before: {in_words(spread)} at {measurement.commit}, {measurement.date},"
            f" {measurement.hardware}"
        )
    return [*lines, *([f"not measured: {why}"] if (why := result.recipe.not_measured) else [])]


_NESTED = ("data", "expected", "anchors", "measured")


def _result(name: str, row: Any, path: Path) -> Result:
    place = f"{path}: {name}"
    if not isinstance(row, Mapping):
        raise UserError(f"{place} has no keys; write a row as the others are")
    for key in _NESTED:
        if key not in row:
            raise UserError(f"{place}: {key} is missing; write null or [] where nothing is known")
    flat = {str(key): value for key, value in row.items() if key not in _NESTED}
    expected = row["expected"]
    result = Result(
        name,
        _made(Recipe, flat, place),
        _made(Data, row["data"], f"{place}.data"),
        None if expected is None else _made(Band, expected, f"{place}.expected"),
        _each(Anchor, row["anchors"], f"{place}.anchors"),
        _each(Measurement, row["measured"], f"{place}.measured"),
    )
    fault = _fault(result)
    if fault:
        raise UserError(f"{place}: {fault}")
    return result


def _each(kind: type[Any], rows: Any, place: str) -> tuple[Any, ...]:
    return tuple(_made(kind, row, f"{place}[{number}]") for number, row in enumerate(rows or []))


def _made(kind: type[Any], values: Any, place: str) -> Any:
    if not isinstance(values, Mapping):
        raise UserError(f"{place} has no keys")
    missing = [known.name for known in fields(kind) if known.name not in values]
    if missing:
        raise UserError(f"{place}: {', '.join(missing)} missing; every key has to be written")
    return from_mapping(kind, values, place)


def _fault(result: Result) -> str:
    """What contradicts itself in a row; empty when nothing does."""
    recipe, band = result.recipe, result.expected
    if not recipe.seeds or len(set(recipe.seeds)) < len(recipe.seeds) or min(recipe.seeds) < 0:
        return f"seeds: {recipe.seeds} are not different whole numbers from 0 on"
    if recipe.metric not in METRIC_NAMES:
        return f"metric: {recipe.metric} is none of {', '.join(METRIC_NAMES)}"
    if band is not None and not band.lowest <= band.mean <= band.highest:
        return f"expected: {band.lowest}, {band.mean}, {band.highest} do not rise"
    wrong = [
        name for name, sha in result.data.files.items() if not re.fullmatch("[0-9a-f]{64}", sha)
    ]
    if wrong:
        return f"data.files: {wrong[0]} has no SHA-256 of 64 hexadecimal digits"
    if bool(result.measured) == bool(recipe.not_measured):
        return "measured: give figures, or say in not_measured why there are none, and not both"
    return ""
