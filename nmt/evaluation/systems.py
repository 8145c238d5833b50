"""Systems to compare: model folders, the runs that have made them, and translations by others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.base import layout
from nmt.base.errors import UserError
from nmt.base.files import read_lines
from nmt.config import load_values
from nmt.data.corpus import PreparedCorpus
from nmt.run_folder import Run
from nmt.trained_model import is_model


@dataclass(frozen=True)
class System:
    """A model to score, or a file of translations by another system.

    Attributes:
        name: name in tables, `Run.full_name` of a run. Another model has the name of its folder, or
            of the parent folder if its folder is named `model`.
        model: the model folder, or the file of translations.
        run: the run that has made the model; None if it is unknown, as for a copy.
        translations: the lines of the file of translations; None for a model.
    """

    name: str
    model: Path
    run: Run | None
    translations: list[str] | None = None

    @property
    def corpus(self) -> PreparedCorpus | None:
        """The corpus that the model was trained on; None if it is unknown or does not exist."""
        return self.run.corpus if self.run else None

    @property
    def direction(self) -> tuple[str, str]:
        """Codes of the source and the target language, read without loading the model."""
        values = load_values(self.model / layout.CONFIG_FILE)
        return str(values.get("source_language")), str(values.get("target_language"))


def find_model() -> Path:
    """Return the model folder of the last completed run outside of sweeps."""
    folder = Path("outputs", layout.LATEST_LINK, layout.MODEL_FOLDER)
    if not is_model(folder):
        raise UserError(
            f"{folder} does not exist, because no run outside a sweep is complete; run `make"
            " train`, or name a model with MODEL="
        )
    return folder


def open_system(folder: Path) -> System:
    """Open a run folder or a model folder; UserError if it is neither."""
    model = next(filter(is_model, (folder / layout.MODEL_FOLDER, folder)), None)
    if model is None:
        exists = "is neither a model folder nor a run folder with a model"
        raise UserError(f"{folder}: {exists if folder.exists() else 'no such folder'}")
    # Links such as `latest` are resolved, because the name must be that of the run folder.
    model = model.resolve()
    if model.name != layout.MODEL_FOLDER:
        return System(model.name, model, None)
    run = Run(model.parent)
    return System(run.full_name, model, run if run.has_begun else None)


def open_systems(folders: Sequence[Path], others: Mapping[str, str]) -> list[System]:
    """Open the folders of models and the files of translations by other systems, given by name.

    Raises:
        UserError: a folder has no model, a file cannot be read or is blank, or two systems have the
            same name.
    """
    systems = [open_system(folder) for folder in folders]
    for name, file in others.items():
        if not file:
            raise UserError(f"systems.{name}= names no file of translations; name one")
    systems += [
        System(name, Path(file), None, read_lines(Path(file))) for name, file in others.items()
    ]
    for system in systems:
        if system.translations is not None and not any(map(str.strip, system.translations)):
            raise UserError(f"{system.model}: has no translations, only blank lines; name another")
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two systems have the name {name}; rename a folder or a key")
    return systems
