"""Names of the files and folders that a run, a model folder and a corpus consist of.

This module has only the names that several packages use, and two functions: one finds such a folder
around a path, the other checks that a run folder has no link that leads out of it.
docs/reference/files.md describes all files.
"""

import os
from pathlib import Path

from nmt.base.errors import UserError

# Below the output folder.
CORPORA_FOLDER = "corpora"
RUNS_FOLDER = "runs"
SWEEPS_FOLDER = "sweeps"
EVALUATIONS_FOLDER = "evaluations"
LATEST_LINK = "latest"

# Files and folders in a run folder. A model folder also has a `config.yaml`, and a corpus folder a
# `report.html`.
CONFIG_FILE = "config.yaml"
ENVIRONMENT_FILE = "environment.json"
LOG_FILE = "train.log"
METRICS_FILE = "metrics.jsonl"
SKIPPED_UPDATES_FILE = "skipped_updates.jsonl"
RESULT_FILE = "result.json"
LOCK_FILE = ".lock"  # held while a process trains in the folder
FAILURE_FILE = "failure.json"
VALID_HYPOTHESES_FILE = "valid_hypotheses.txt"
REPORT_FILE = "report.html"
CORPUS_RUNS_FILE = "runs.html"  # in a corpus folder, not in its manifest
CHECKPOINTS_FOLDER = "checkpoints"
EVALUATION_FOLDER = "evaluation"
MODEL_FOLDER = "model"

# Files in `evaluation/<test set>/`. A model folder also has a `scores.json`.
SOURCE_FILE = "source.txt"
HYPOTHESES_FILE = "hypotheses.txt"
BASELINE_FILE = "baseline.txt"  # translations of the baseline
SCORES_FILE = "scores.json"

# Files in a model folder.
WEIGHTS_FILE = "weights.safetensors"
README_FILE = "README.md"
CONFIDENCE_FILE = "confidence.json"
WORDS_FILE = "words.txt"  # word forms of the target language, for glossaries
ENGINES_FILE = "engines.json"  # whether CTranslate2 translates like torch
FORMS_FILE = "forms.tsv"  # forms of terms in the text that the model was adapted to

# File in the folder of an export.
EXPORT_FILE = "export.json"

# File in a corpus folder and in a checkpoint.
MANIFEST_FILE = "manifest.json"


def reference_file(index: int) -> str:
    """Return the name of a file of references: `reference.txt`, `reference.1.txt`, …"""
    return f"reference.{index}.txt" if index else "reference.txt"


# A folder with both files of a row is a run, a model, an export or a corpus.
_RESULTS = (
    (CONFIG_FILE, ENVIRONMENT_FILE),
    (CONFIG_FILE, WEIGHTS_FILE),
    (EXPORT_FILE, README_FILE),
    (MANIFEST_FILE, "train-00000.arrow"),
)


def result_folder(path: Path) -> Path | None:
    """Return the run, model, export or corpus that contains a path; None if there is none."""
    for folder in Path(os.path.realpath(path)).parents:
        if any(all((folder / name).is_file() for name in names) for names in _RESULTS):
            return folder
    return None


def check_links_stay_inside(run: Path) -> None:
    """Raise UserError if a run folder, which may be untrusted, has a pipe or a link out of it."""
    for path in (*run.glob("*"), *run.glob(f"{EVALUATION_FOLDER}/*")):
        fix = "remove it, or choose another run.name"
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(run)):
            raise UserError(f"{path}: leads out of its folder; {fix}")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UserError(f"{path}: is a device or a pipe; {fix}")
