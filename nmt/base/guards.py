"""Checks before work: no result is replaced by another output, and no link leads out of a run."""

import os
from collections.abc import Iterable
from pathlib import Path

from nmt.base import layout
from nmt.base.errors import UserError

# A folder with both files of a row is a run, a model, an export or a corpus.
_RESULTS = (
    (layout.CONFIG_FILE, layout.ENVIRONMENT_FILE),
    (layout.CONFIG_FILE, layout.WEIGHTS_FILE),
    (layout.EXPORT_FILE, layout.README_FILE),
    (layout.MANIFEST_FILE, "train-00000.arrow"),
)


def check_not_in_results(outputs: Iterable[Path]) -> None:
    """Raise UserError if an output would replace a file of a run, model, export or corpus."""
    for output in filter(os.path.lexists, outputs):
        for folder in Path(os.path.realpath(output)).parents:
            if any(all((folder / name).is_file() for name in names) for names in _RESULTS):
                raise UserError(f"{output}: would replace a file of {folder}; change out=")


def check_no_way_out(run: Path) -> None:
    """Raise UserError if a run folder, which may be untrusted, has a pipe or a link out of it."""
    for path in (*run.glob("*"), *run.glob(f"{layout.EVALUATION_FOLDER}/*")):
        fix = "remove it, or choose another run.name"
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(run)):
            raise UserError(f"{path}: leads out of its folder; {fix}")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UserError(f"{path}: is a device or a pipe; {fix}")
