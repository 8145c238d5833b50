"""Systems to compare: model folders, their runs, and the choice of the baseline.

The baseline of a run is the earlier completed run on the same corpus and direction with the best
validation score. Test scores are not considered. A run is no baseline for another seed of the same
configuration, because their difference is chance.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.base import layout
from nmt.base.errors import UserError, one_line
from nmt.base.files import file_inside, is_forbidden
from nmt.config import RANDOM_KEYS, differing_values, is_free_key, load_values
from nmt.data.corpus import PreparedCorpus
from nmt.run_folder import Run

logger = logging.getLogger(__name__)

NO_BASELINE = "there is no earlier run to compare with (other seeds are not considered)"


@dataclass(frozen=True)
class System:
    """A model to score.

    Attributes:
        name: name in tables, `Run.full_name` of a run. Another model has the name of its folder, or
            of the parent folder if its folder is named `model`.
        model: the model folder.
        run: the run that has made the model; None if it is unknown, as for a copy.
    """

    name: str
    model: Path
    run: Run | None

    @property
    def corpus(self) -> PreparedCorpus | None:
        """The corpus that the model was trained on; None if it is unknown or does not exist."""
        return self.run.corpus if self.run else None

    @property
    def direction(self) -> tuple[str, str]:
        """Codes of the source and the target language."""
        config = load_values(self.model / layout.CONFIG_FILE)
        return str(config.get("source_language")), str(config.get("target_language"))


@dataclass(frozen=True)
class Baseline:
    """The system that others are compared with, and how it was chosen."""

    system: System
    why: str


def find_model() -> Path:
    """Return the model folder of the last completed run outside of sweeps."""
    folder = Path("outputs", layout.LATEST_LINK, layout.MODEL_FOLDER)
    if not (folder / layout.CONFIG_FILE).is_file():
        raise UserError(
            f"{folder} does not exist, because no run outside a sweep is complete; run `make"
            " train`, or name a model with MODEL="
        )
    return folder


def open_system(folder: Path) -> System:
    """Open a run folder or a model folder; UserError if it is neither."""
    model = next(filter(_is_model, (folder / layout.MODEL_FOLDER, folder)), None)
    if model is None:
        raise UserError(f"{folder}: neither a model folder nor a run folder with a model")
    # Links such as `latest` are resolved, because the name must be that of the run folder.
    model = model.resolve()
    if model.name != layout.MODEL_FOLDER:
        return System(model.name, model, None)
    run = Run(model.parent)
    return System(run.full_name, model, run if run.has_begun else None)


def open_systems(folders: Sequence[Path]) -> list[System]:
    """Open folders of systems to compare, or the last completed run if none is given.

    Raises:
        UserError: a folder has no model, or two systems have the same name.
    """
    systems = [open_system(folder) for folder in folders or [find_model()]]
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"model=: two models have the name {name}; rename a folder")
    return systems


def choose_baseline(
    systems: Sequence[System], named: str, corpus: PreparedCorpus | None
) -> Baseline | None:
    """Choose the system that others are compared with.

    A model or run folder `named` by the user is the baseline. If `named` is empty, the first of
    several systems is; for a single system, `find_baseline` chooses a run on `corpus`.
    """
    first = systems[0]
    if named:
        system = open_system(Path(named))
        if any(one.name == system.name and one.model != system.model for one in systems):
            system = replace(system, name=str(system.model))
        return Baseline(system, "named by baseline=")
    if len(systems) > 1:
        return Baseline(first, "the first of the models")
    return find_baseline(first.run, corpus) if first.run and corpus else None


def find_baseline(run: Run, corpus: PreparedCorpus) -> Baseline | None:
    """Find the earlier completed run on the same corpus with the best validation score, if any.

    Corpora are the same if their names, directions and validation texts are; their subwords and
    cleaning may differ. If `run` is complete, runs that ended later are not considered.
    """
    folder = run.folder.resolve()
    own_result = folder / layout.RESULT_FILE
    deadline = own_result.stat().st_mtime if own_result.is_file() else math.inf
    # The folder's name is the corpus's name, a hyphen and the fingerprint.
    name = corpus.folder.name.rpartition("-")[0]
    direction = corpus.manifest["direction"]
    found: list[tuple[float, float, Run]] = []
    patterns = (f"{layout.RUNS_FOLDER}/*", f"{layout.SWEEPS_FOLDER}/*/*")
    results = [p for one in patterns for p in run.outputs.glob(f"{one}/{layout.RESULT_FILE}")]
    for result in sorted(results):
        other = Run(result.parent)
        if other.folder.resolve() == folder or result.stat().st_mtime >= deadline:
            continue
        try:
            if (
                _is_model(other.model)
                and _has_corpus(other, name, direction, corpus.folder)
                and not _is_seed_of(run, other)
            ):
                valid = other.result["valid"]
                # A damaged model raises UserError. The user may have put one of another direction
                # into the folder.
                languages = open_system(other.folder).direction
                if languages == (corpus.source_language, corpus.target_language):
                    found.append((valid["bleu"], -valid["loss"], other))
        except UserError as error:
            logger.warning(one_line(f"{other.folder} is not compared with this run: {error}"))
    if not found:
        return None
    bleu, _, best = max(found, key=lambda one: (one[:2], one[2].folder))
    why = "the only comparable run"
    if len(found) > 1:
        why = f"best on validation (BLEU {bleu:.2f}) of {len(found)} comparable runs"
    return Baseline(open_system(best.folder), f"{why} on {name} {direction}")


def _is_model(folder: Path) -> bool:
    """Whether a folder has the files of a model; UserError if this user may not read it."""
    config = folder / layout.CONFIG_FILE
    if is_forbidden(config):
        raise UserError(f"{config}: cannot be read: permission denied")
    return config.is_file() and (folder / layout.WEIGHTS_FILE).is_file()


def _has_corpus(run: Run, name: str, direction: str, corpus: Path) -> bool:
    """Whether a run's corpus has this name and direction, and the validation text of `corpus`."""
    config: Any = run.values.get("corpus") or {}
    if (config.get("name"), config.get("direction")) != (name, direction):
        return False
    text = _valid_text(corpus)
    is_same = text != {} and _valid_text(corpus.parent / run.corpus_name) == text
    return is_same or run.corpus_name == corpus.name


def _is_seed_of(run: Run, other: Run) -> bool:
    """Whether two runs differ in the seed, and in no key that changes results more than a seed."""
    if not run.has_begun:
        return False
    differing = differing_values(run.values, other.values)
    keys = {key for key in differing if not is_free_key(key)}
    return "training.seed" in keys and keys.issubset(RANDOM_KEYS)


def _valid_text(corpus: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in corpus.glob("text/valid.*"))
    return {name: file_inside(corpus, "text", name).read_bytes() for name in names}
