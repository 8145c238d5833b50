"""Systems to compare: model folders, the runs that they lie in, and which one is the baseline.

The baseline of a run is the earlier completed run of the same corpus and direction that is best on
validation. No score of a test set has a say in it, and another seed of the same configuration is
none: what parts the two is chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.config import FREE_KEYS, differing_values, load_values
from nmt.data.corpus import PreparedCorpus
from nmt.errors import UserError
from nmt.files import read_json, read_lines
from nmt.trained_model import CONFIG_FILE, WEIGHTS_FILE

NO_BASELINE = "there is no earlier run to compare with (other seeds do not count)"

MODEL_FOLDER = "model"
EVALUATION_FOLDER = "evaluation"

_RESULT_FILE = "result.json"
_RUN_CONFIG_FILE = "config.yaml"
_ENVIRONMENT_FILE = "environment.json"


@dataclass(frozen=True)
class System:
    """A model to score.

    Attributes:
        name: what tables call it: its run's name, `<sweep>/<what varies>`, or its folder's name.
        model: the model folder.
        run: the run that it lies in; None for a copy elsewhere.
    """

    name: str
    model: Path
    run: Path | None

    def stored_hypotheses(
        self, split: str, sources: list[str], references: list[list[str]]
    ) -> list[str] | None:
        """What the run wrote when it scored itself on this very text; None where it did not."""
        if self.run is None:
            return None
        folder = self.run / EVALUATION_FOLDER / split
        names = [reference_file(number) for number in range(len(references))]
        texts = {"source.txt": sources, **dict(zip(names, references, strict=True))}
        for name, lines in texts.items():
            if not (folder / name).is_file() or read_lines(folder / name) != lines:
                return None
        path = folder / "hypotheses.txt"
        hypotheses = read_lines(path) if path.is_file() else []
        return hypotheses if len(hypotheses) == len(sources) else None


@dataclass(frozen=True)
class Baseline:
    """The system that others are held against, and how it was chosen."""

    system: System
    why: str


def reference_file(number: int) -> str:
    """File name of the first (0) or a further set of references below `evaluation/<split>/`."""
    return f"reference.{number}.txt" if number else "reference.txt"


def open_system(folder: Path) -> System:
    """A system by its run's folder or by its model folder.

    Raises:
        UserError: it is neither.
    """
    model = next(filter(_is_model, (folder / MODEL_FOLDER, folder)), None)
    if model is None:
        raise UserError(f"{folder}: is no model folder, and no run that has one")
    # `latest` is a link, and the system is what it leads to.
    model = model.resolve()
    run = model.parent if (model.parent / _ENVIRONMENT_FILE).is_file() else None
    place = model.parent if model.name == MODEL_FOLDER else model
    return System(system_name(place), model, run)


def system_name(folder: Path) -> str:
    """What a run, or a model folder outside of one, is called in tables."""
    in_sweep = folder.parent.parent.name == "sweeps"
    return f"{folder.parent.name}/{folder.name}" if in_sweep else folder.name


def find_baseline(run: Path, corpus: PreparedCorpus, outputs: Path) -> Baseline | None:
    """The completed run that is best on validation among the earlier ones of the same corpus.

    Runs have the same corpus when its name, its direction and its validation text are the same: the
    subwords may differ, and so may cleaning. Runs that differ from this one in the seed alone are
    left aside: they are the same system, drawn again.

    Args:
        run: the run that is to be compared; when it is complete, later runs are left aside.
        corpus: what it was trained on.
        outputs: the folder with `runs` and `sweeps`.
    """
    run = run.resolve()
    deadline = _completed(run)
    # The folder's name is the corpus's, a hyphen and the fingerprint.
    name = corpus.folder.name.rpartition("-")[0]
    direction = f"{corpus.source_language}-{corpus.target_language}"
    found: list[tuple[float, float, Path]] = []
    for other in _completed_runs(outputs):
        is_later = deadline is not None and (_completed(other) or deadline) >= deadline
        if is_later or other.resolve() == run:
            continue
        if not _has_corpus(other, name, direction, corpus.folder) or _is_other_seed(run, other):
            continue
        try:
            valid = read_json(other / _RESULT_FILE)["valid"]
            found.append((float(valid["bleu"]), -float(valid["loss"]), other))
        except (UserError, KeyError, TypeError, ValueError):
            continue  # another run's damage is no reason not to score this one
    if not found:
        return None
    bleu, _, best = max(found)
    if len(found) == 1:
        return Baseline(open_system(best), f"the one earlier run on {name} {direction}")
    why = f"best on validation (BLEU {bleu:.2f}) of {len(found)} earlier runs on {name} {direction}"
    return Baseline(open_system(best), why)


def corpus_name(run: Path) -> str:
    """Name of the prepared corpus's folder, fingerprint included, that a run was trained on.

    Raises:
        UserError: the run does not say.
    """
    values = read_json(run / _ENVIRONMENT_FILE)
    if not isinstance(values, dict) or "corpus" not in values:
        raise UserError(f"{run / _ENVIRONMENT_FILE}: names no corpus; the run is damaged")
    return str(values["corpus"])


def corpus_folder(run: Path) -> Path | None:
    """The prepared corpus that a run was trained on; None where it is gone.

    Raises:
        UserError: the run does not say.
    """
    folder = outputs_of(run) / "corpora" / corpus_name(run)
    return folder if folder.is_dir() else None


def outputs_of(run: Path) -> Path:
    """The folder of all outputs that a run lies in."""
    run = run.resolve()
    return run.parents[2] if run.parents[1].name == "sweeps" else run.parents[1]


def _completed_runs(outputs: Path) -> Iterator[Path]:
    for pattern in (f"runs/*/{_RESULT_FILE}", f"sweeps/*/*/{_RESULT_FILE}"):
        for path in sorted(outputs.glob(pattern)):
            if _is_model(path.parent / MODEL_FOLDER):
                yield path.parent


def _is_model(folder: Path) -> bool:
    return (folder / CONFIG_FILE).is_file() and (folder / WEIGHTS_FILE).is_file()


def _completed(run: Path) -> float | None:
    """When a run was completed; None while it is not."""
    path = run / _RESULT_FILE
    return path.stat().st_mtime if path.is_file() else None


def _has_corpus(other: Path, name: str, direction: str, corpus: Path) -> bool:
    try:
        config: Any = load_values(other / _RUN_CONFIG_FILE).get("corpus") or {}
        if (config.get("name"), config.get("direction")) != (name, direction):
            return False
        folder = corpus.parent / corpus_name(other)
    except UserError:
        # Another run's damage is no reason not to score this one.
        return False
    # BLEU on another validation text says nothing, and its training text may hold this test set.
    return folder.name == corpus.name or _valid_text(folder) == _valid_text(corpus) != {}


def _is_other_seed(run: Path, other: Path) -> bool:
    """Whether both have one configuration, but for the seed and what changes no result."""
    path = run / _RUN_CONFIG_FILE
    if not path.is_file():
        return False
    differing = differing_values(load_values(path), load_values(other / _RUN_CONFIG_FILE))
    return {key for key in differing if not key.startswith(FREE_KEYS)} == {"training.seed"}


def _valid_text(corpus: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(corpus.glob("text/valid.*"))}
