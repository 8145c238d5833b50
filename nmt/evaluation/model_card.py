"""The README of a model folder or of an exported model, made from `scores.json`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.base.errors import printable
from nmt.base.files import read_record
from nmt.metrics.scores import Score, column_title, format_score
from nmt.pages.html_page import render_text
from nmt.run_folder import CostRecord, describe_cost
from nmt.trained_model import TrainedModelConfig

_TEMPLATE = Path(__file__).with_name("templates") / "model_card.md.jinja"

USAGE = """    nmt translate model=THIS_FOLDER file=FILE

or in Python:

    import nmt
    translator = nmt.load("THIS_FOLDER")
    print(translator.translate(["A sentence."]))"""
"""How a model folder is used; an export has another text."""


@dataclass(frozen=True)
class TrainingData:
    """One source of training pairs; the licence is empty if it was not recorded."""

    name: str
    pairs: int
    licence: str = ""


@dataclass(frozen=True)
class _Identity:
    known_as: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Phenomenon:
    accuracy: float | None = None


@dataclass(frozen=True)
class _TestSet:
    bleu: Score
    chrf: Score | None = None
    length_ratio: float = 1.0
    comet: Score | None = None
    test_set: _Identity = field(default_factory=_Identity)
    phenomena: dict[str, _Phenomenon] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """The part of a model folder's `scores.json` that the README is made from.

    `chosen` names the weights that validation selected; `notes` state the origin of the weights.
    """

    chosen: str = ""
    generated_corpus: bool = False
    training_data: list[TrainingData] = field(default_factory=list)
    test_sets: dict[str, _TestSet] = field(default_factory=dict)
    cost: CostRecord | None = None
    notes: list[str] = field(default_factory=list)


def read_facts(path: Path) -> Facts:
    """Read the `scores.json` of a model folder; without the file, no facts are known."""
    return read_record(path, Facts, "copy the folder again") if path.is_file() else Facts()


def model_card(
    config: TrainedModelConfig,
    num_parameters: int,
    facts: Facts,
    usage: str = USAGE,
    verification: Sequence[str] = (),
) -> str:
    """Return the text of the README; a section without facts is left out.

    `usage` explains in Markdown how the files of the folder are used. `verification` has sentences
    that compare an export with the model.
    """
    context = {
        "config": config,
        "num_parameters": num_parameters,
        "facts": facts,
        "usage": usage.rstrip(),
        "verification": verification,
        # A `scores.json` from elsewhere must not add headings or control characters.
        "clean": lambda line: printable(" ".join(line.split())),
        "plain": _plain,
        "column_title": column_title,
        "describe_cost": describe_cost,
        "format_score": format_score,
    }
    return render_text(_TEMPLATE, context)


def _plain(text: str) -> str:
    """Escape a text, such as the name of a test set, so that Markdown shows it as it is."""
    return re.sub(r"([\\`*\[\]<>|&])", r"\\\1", text)
