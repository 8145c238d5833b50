"""Checkpoints: everything a run needs to go on as if it had never stopped.

checkpoints/update_0010000/{weights.safetensors,training_state.pt,manifest.json}
"""

import hashlib
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from nmt.data.loader import Position
from nmt.errors import UserError
from nmt.files import atomic_folder, read_json, write_json
from nmt.model.transformer import Transformer
from nmt.trained_model import WEIGHTS_FILE, load_weights, read_weights, save_weights

STATE_FILE = "training_state.pt"
MANIFEST_FILE = "manifest.json"


@dataclass(frozen=True)
class Progress:
    """How far a run has come: everything but weights and optimizer that a restart needs.

    Attributes:
        update: optimizer steps done.
        position: the next update's place in the data.
        seconds: spent in training and validation, over all restarts.
        target_tokens: learned from.
        best_rank: of the best validation so far, higher is better; None before the first.
        best_update: the update it was seen at.
        validations_without_best: for early stopping.
        run_id: the tracker's id of the run.
    """

    update: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    target_tokens: int = 0
    best_rank: tuple[float, float] | None = None
    best_update: int = 0
    validations_without_best: int = 0
    run_id: str = ""


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: the run's `checkpoints/`.
        every: updates between regular checkpoints; an interruption leaves one in between.
        keep_last: how many of the last regular ones are kept; the newest and the best are besides.
    """

    def __init__(self, folder: Path, every: int, keep_last: int) -> None:
        self.folder = folder
        self._every = every
        self._keep_last = keep_last

    def path(self, update: int) -> Path:
        """Folder of the checkpoint of an update."""
        return self.folder / f"update_{update:07d}"

    def updates(self) -> list[int]:
        """Updates that have a complete checkpoint, oldest first."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        numbers = [name.removeprefix("update_") for name in names if name.startswith("update_")]
        # Not `update_0000010.bak`, nor whatever else a user may keep here.
        return sorted(int(number) for number in numbers if number.isdecimal())

    def regular_updates(self) -> list[int]:
        """The last regular checkpoints, the newest among them in any case.

        What an interruption left in between is not one: it would make the average depend on when
        the run was stopped.
        """
        updates = self.updates()
        regular = [u for u in updates if u % self._every == 0 or u == updates[-1]]
        return regular[-self._keep_last :]

    def save(
        self, transformer: Transformer, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> Path:
        """Write a checkpoint, then remove those that are no longer needed."""
        path = self.path(progress.update)
        with atomic_folder(path) as temporary:
            save_weights(transformer, temporary / WEIGHTS_FILE)
            state = {"optimizer": optimizer.state_dict(), "progress": asdict(progress)}
            torch.save(state, temporary / STATE_FILE)
            files = {name: _sha256(temporary / name) for name in (WEIGHTS_FILE, STATE_FILE)}
            write_json(temporary / MANIFEST_FILE, {"update": progress.update, "sha256": files})
        self._prune(progress.best_update)
        return path

    def load_last(
        self, transformer: Transformer, optimizer: torch.optim.Optimizer
    ) -> Progress | None:
        """Restore the newest checkpoint; None when there is none.

        Raises:
            UserError: the newest checkpoint is damaged.
        """
        updates = self.updates()
        if not updates:
            return None
        path = self.path(updates[-1])
        self._verify(path)
        load_weights(transformer, read_weights(path / WEIGHTS_FILE), path / WEIGHTS_FILE)
        state = torch.load(path / STATE_FILE, map_location="cpu", weights_only=True)
        optimizer.load_state_dict(state["optimizer"])
        return _progress(state["progress"])

    def average(self, updates: list[int]) -> dict[str, torch.Tensor]:
        """The mean of the weights of some checkpoints (Vaswani et al. 2017, section 6.1)."""
        total: dict[str, torch.Tensor] = {}
        for update in updates:
            for name, tensor in read_weights(self.path(update) / WEIGHTS_FILE).items():
                # In float64, so that the order of the sum does not show in float32.
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / len(updates)).float() for name, tensor in total.items()}

    def _verify(self, path: Path) -> None:
        manifest = read_json(path / MANIFEST_FILE)
        for name, expected in manifest["sha256"].items():
            if not (path / name).is_file() or _sha256(path / name) != expected:
                raise UserError(
                    f"{path / name} is damaged or missing; remove {path} to continue from the"
                    " checkpoint before it"
                )

    def _prune(self, best_update: int) -> None:
        needed = {*self.regular_updates(), best_update}
        for update in self.updates():
            if update not in needed:
                shutil.rmtree(self.path(update))


def _progress(values: dict[str, Any]) -> Progress:
    return Progress(**{**values, "position": Position(**values["position"])})


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
