"""`evaluation/<test set>/` in a run folder: stored texts and scores."""

import os
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from nmt.base import layout
from nmt.base.files import check_aligned, file_inside, read_lines
from nmt.config import DEFAULT_TOKENIZER


@dataclass(frozen=True)
class StoredTexts:
    """Aligned texts of an evaluation.

    Attributes:
        name: name of the test set.
        baseline: translations of the baseline; None if there are none.
        tokenizer: the tokeniser of BLEU.
    """

    name: str
    sources: list[str]
    references: list[list[str]]
    hypotheses: list[str]
    baseline: list[str] | None = None
    tokenizer: str = DEFAULT_TOKENIZER


def read_texts(run: Path, test_set: str, tokenizer: str) -> StoredTexts:
    """Read the texts of a test set in a run folder; UserError if they are incomplete."""
    folder = layout.EVALUATION_FOLDER, test_set

    def is_there(name: str) -> bool:
        return os.path.lexists(run.joinpath(*folder, name))

    more = takewhile(is_there, map(layout.reference_file, count(1)))
    names = [layout.SOURCE_FILE, layout.HYPOTHESES_FILE, layout.reference_file(0), *more]
    names += filter(is_there, [layout.BASELINE_FILE])
    paths = {name: file_inside(run, *folder, name) for name in names}
    texts = {name: read_lines(path) for name, path in paths.items()}
    check_aligned({paths[name]: len(lines) for name, lines in texts.items()})
    sources, hypotheses = texts.pop(layout.SOURCE_FILE), texts.pop(layout.HYPOTHESES_FILE)
    baseline = texts.pop(layout.BASELINE_FILE, None)
    return StoredTexts(test_set, sources, list(texts.values()), hypotheses, baseline, tokenizer)
