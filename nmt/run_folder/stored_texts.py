"""`evaluation/<test set>/` in a run folder: stored texts and scores."""

import os
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from nmt.base import layout
from nmt.base.files import check_aligned, file_inside, read_lines


@dataclass(frozen=True)
class StoredTexts:
    """Aligned texts of an evaluation.

    Attributes:
        name: name of the test set.
        baseline: translations of the baseline; None if there are none.
    """

    name: str
    sources: list[str]
    references: list[list[str]]
    hypotheses: list[str]
    baseline: list[str] | None = None


def read_texts(run: Path, test_set: str) -> StoredTexts:
    """Read the texts of a test set in a run folder; UserError if they are incomplete."""
    folder = layout.EVALUATION_FOLDER, test_set
    more = takewhile(
        lambda name: os.path.lexists(run.joinpath(*folder, name)),
        map(layout.reference_file, count(1)),
    )
    names = layout.SOURCE_FILE, layout.HYPOTHESES_FILE, layout.reference_file(0), *more
    paths = [file_inside(run, *folder, name) for name in names]
    texts = [read_lines(path) for path in paths]
    check_aligned({path: len(lines) for path, lines in zip(paths, texts, strict=True)})
    sources, hypotheses, *references = texts
    return StoredTexts(test_set, sources, references, hypotheses)
