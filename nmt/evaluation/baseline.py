"""The choice of the baseline that a system is compared with.

The baseline of a run is the model that it was trained from, if there is one (`initial_model`).
Otherwise, it is the earlier completed run on the same corpus and direction with the best validation
score. Test scores are not considered. A run is no baseline for another seed of the same
configuration, because their difference is chance, and runs of sweeps are none for any run.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nmt.base.errors import UserError, one_line
from nmt.base.files import file_inside
from nmt.base.layout import RUNS_FOLDER
from nmt.config import RANDOM_KEYS, differing_values, is_free_key
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.systems import System, open_system
from nmt.run_folder import Run
from nmt.trained_model import is_model

logger = logging.getLogger(__name__)

NO_BASELINE = "there is no earlier run to compare with (other seeds are not considered)"


@dataclass(frozen=True)
class Baseline:
    """The system that others are compared with, and how it was chosen.

    Attributes:
        is_initial: whether the system is the model that the run was trained from.
        valid_hypotheses: its translations of the validation set, if they are known and not stored.
    """

    system: System
    why: str
    is_initial: bool = False
    valid_hypotheses: tuple[str, ...] = ()


def choose_baseline(
    systems: Sequence[System], named: str, corpus: PreparedCorpus | None
) -> Baseline | None:
    """Choose the system that others are compared with.

    The user may have `named` a file of translations by its name, or a model or run folder. If
    `named` is empty, the baseline is the first of several systems; for a single one,
    `find_baseline` chooses it.
    """
    first = systems[0]
    if named:
        others = {one.name: one for one in systems if one.translations is not None}
        system = others.get(named) or open_system(Path(named))
        if any(one.name == system.name and one.model != system.model for one in systems):
            system = replace(system, name=str(system.model))
        return Baseline(system, "named by baseline=")
    if len(systems) > 1:
        return Baseline(first, "the first of the systems")
    return find_baseline(first.run, corpus) if first.run and corpus else None


def find_baseline(run: Run, corpus: PreparedCorpus) -> Baseline | None:
    """Find the model that a run was trained from, or the best earlier run on the same corpus.

    Corpora are the same if their names, directions and validation texts are; their subwords and
    cleaning may differ. If `run` is complete, runs that ended later are not considered.
    """
    initial = _initial_model(run)
    if initial:
        return Baseline(initial, "the model that this run was trained from", is_initial=True)
    direction = corpus.manifest["direction"]
    found: list[tuple[float, float, Run]] = []
    own = run.folder.resolve()
    for folder in sorted((run.outputs / RUNS_FOLDER).glob("*")):
        other = Run(folder)
        if folder.resolve() == own or not other.completed < run.completed:
            continue
        try:
            if (
                is_model(other.model)
                and _has_corpus(other, corpus)
                and not _is_seed_of(run, other)
                # A damaged model raises UserError. The user may have put one of another direction
                # into the folder.
                and "-".join(open_system(folder).direction) == direction
            ):
                valid = other.result["valid"]
                found.append((valid["bleu"], -valid["loss"], other))
        except UserError as error:
            logger.warning(one_line(f"{folder} is not compared with this run: {error}"))
    if not found:
        return None
    bleu, _, best = max(found, key=lambda one: (one[:2], one[2].folder))
    why = "the only comparable run"
    if len(found) > 1:
        why = f"best on validation (BLEU {bleu:.2f}) of {len(found)} comparable runs"
    return Baseline(open_system(best.folder), f"{why} on {corpus.name} {direction}")


def _initial_model(run: Run) -> System | None:
    """Open the model that a run was trained from; None if there is none, or no longer."""
    training = run.values.get("training") if run.has_begun else None
    folder = training.get("initial_model") if isinstance(training, dict) else None
    if not folder:
        return None
    try:
        return open_system(Path(str(folder)))
    except UserError as error:
        logger.warning(one_line(f"the initial model is not compared with this run: {error}"))
        return None


def _has_corpus(run: Run, corpus: PreparedCorpus) -> bool:
    """Whether a run's corpus has the name, direction and validation text of `corpus`."""
    config: Any = run.values.get("corpus") or {}
    if (config.get("name"), config.get("direction")) != (corpus.name, corpus.manifest["direction"]):
        return False
    text = _valid_text(corpus.folder)
    is_same = text != {} and _valid_text(corpus.folder.parent / run.corpus_name) == text
    return is_same or run.corpus_name == corpus.folder.name


def _is_seed_of(run: Run, other: Run) -> bool:
    """Whether two runs differ in the seed, and in no key that changes results more than a seed."""
    differing = differing_values(run.settings, other.settings)
    keys = {key for key in differing if not is_free_key(key)}
    return "training.seed" in keys and keys.issubset(RANDOM_KEYS)


def _valid_text(corpus: Path) -> dict[str, bytes]:
    names = sorted(path.name for path in corpus.glob("text/valid.*"))
    return {name: file_inside(corpus, "text", name).read_bytes() for name in names}
