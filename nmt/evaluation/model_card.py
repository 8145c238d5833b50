"""The README of a model folder or of an exported model, made from `scores.json`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.base.errors import printable
from nmt.base.files import read_record
from nmt.evaluation.records import CostRecord, describe_cost
from nmt.metrics.scores import Score, column_title, format_score
from nmt.model.build import count_parameters
from nmt.trained_model import TrainedModel

_NUM_WEAKEST = 3
_LENGTH_RATIOS = (0.95, 1.05)

USAGE = """    python -m nmt.cli.translate model=THIS_FOLDER file=TEXT

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
    """The part of a model folder's `scores.json` that the README is made from."""

    chosen: str = ""
    generated_corpus: bool = False
    training_data: list[TrainingData] = field(default_factory=list)
    test_sets: dict[str, _TestSet] = field(default_factory=dict)
    cost: CostRecord | None = None
    notes: list[str] = field(default_factory=list)
    """Sentences about the origin of the weights."""


def read_facts(path: Path) -> Facts:
    """Read the `scores.json` of a model folder; without the file, no facts are known."""
    return read_record(path, Facts, "copy the folder again") if path.is_file() else Facts()


def model_card(
    model: TrainedModel, facts: Facts, usage: str = USAGE, verification: Sequence[str] = ()
) -> str:
    """Write the README.

    Args:
        model: the model.
        facts: what is known of it; a section without facts is left out.
        usage: how the files of the folder are used, in Markdown.
        verification: how an export compares with the model, one sentence each.
    """
    config = model.config
    parts = [
        f"# Translator {config.direction}",
        f"An encoder-decoder model (model.architecture={config.model.architecture}) with"
        f" {count_parameters(model.network):,} parameters."
        " The folder is self-contained: it can be moved and copied.",
        "## Use",
        usage.rstrip(),
    ]
    sections = {
        "Comparison with the model in torch": verification,
        "Training": _training(facts),
        "Scores": _scores(facts),
        "Known weaknesses": _weaknesses(facts, config.max_source_length),
    }
    for title, lines in sections.items():
        if lines:
            # The `scores.json` of another origin must not add headings or control characters.
            parts += [
                f"## {title}",
                "\n".join(f"- {printable(' '.join(line.split()))}" for line in lines),
            ]
    return "\n\n".join(parts) + "\n"


def _training(facts: Facts) -> list[str]:
    lines = list(facts.notes)
    for source in facts.training_data:
        licence = source.licence or "licence not recorded"
        lines.append(f"{source.name}: {source.pairs:,} sentence pairs; {licence}")
    if facts.cost:
        lines.append(f"cost: {describe_cost(facts.cost)}")
    if facts.chosen:
        lines.append(f"weights chosen on validation: {facts.chosen}")
    return lines


def _scores(facts: Facts) -> list[str]:
    lines = []
    for name, found in facts.test_sets.items():
        known_as = found.test_set.known_as
        title = f"{name} ({known_as})" if known_as and known_as != name else name
        scores = {"bleu": found.bleu, "chrf": found.chrf, "comet": found.comet}
        for key, score in scores.items():
            if score is not None:
                interval = "" if score.ci95 is None else f" ± {score.ci95:.2f}"
                value = f"{column_title(key)} {format_score(key, score.score)}{interval}"
                lines.append(f"{title}: {value} `{score.signature}`")
    if lines:
        lines.append("± is half the width of the 95 % confidence interval")
    if facts.generated_corpus:
        lines.append("the corpus is generated: do not compare these scores with published ones")
    return lines


def _weaknesses(facts: Facts, max_source_length: int) -> list[str]:
    lines = []
    for name, found in facts.test_sets.items():
        if not _LENGTH_RATIOS[0] <= found.length_ratio <= _LENGTH_RATIOS[1]:
            lines.append(
                f"{name}: translations have {found.length_ratio:.0%} of the references' length"
            )
        accuracies = {
            phenomenon: result.accuracy
            for phenomenon, result in found.phenomena.items()
            if result.accuracy is not None
        }
        lines += [
            f"{name}: {accuracies[phenomenon]:.0f} % of the sentences with {phenomenon} are correct"
            for phenomenon in sorted(accuracies, key=lambda key: accuracies[key])[:_NUM_WEAKEST]
        ]
        lines += [f"{name}: {warning}" for warning in found.test_set.warnings]
    lines.append(f"the model reads at most {max_source_length - 1:,} pieces of a source at once")
    return lines
