"""Checkpoints: everything a run needs to go on as if it had never stopped.

checkpoints/update_0010000/{weights.safetensors,training_state.pt,manifest.json}
"""

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from nmt.config import from_mapping
from nmt.data.loader import Position
from nmt.errors import UserError, first_line, one_line
from nmt.files import atomic_folder, read_json, write_json
from nmt.model.transformer import Transformer
from nmt.trained_model import WEIGHTS_FILE, load_weights, read_weights, save_weights
from nmt.training.tally import Counts

logger = logging.getLogger(__name__)

STATE_FILE = "training_state.pt"
MANIFEST_FILE = "manifest.json"

# Raised also where the plan of an epoch changes: a position in another plan is another place, from
# which training would repeat some pairs and skip others.
FORMAT_VERSION = 3

# Regular checkpoints kept in any case: where the newest is damaged, there is one before it.
_FEWEST = 2


@dataclass(frozen=True)
class Halvings:
    """What running out of memory has done to a run's micro-batches.

    Attributes:
        times: they were halved; 0 means that the run is as exact as it can be.
        asked: the configured `batching.tokens_per_micro_batch`; with another one they start
            from that.
        used: the number since then.
        first_update: the update in which memory first ran out.
    """

    times: int = 0
    asked: int = 0
    used: int = 0
    first_update: int = 0

    def limit(self, asked: int) -> int:
        """Most padded tokens of a micro-batch where the configuration says `asked`."""
        return min(self.used, asked) if self.times and self.asked == asked else asked


@dataclass(frozen=True)
class Progress:
    """How far a run has come: everything but weights and optimizer that a restart needs.

    Attributes:
        update: optimizer steps done, the refused ones among them.
        position: the next update's place in the data.
        seconds: spent in training and validation, over all restarts.
        device_seconds: the same, of all processes.
        target_tokens: seen.
        best_rank: of the best validation so far, higher is better; empty before the first.
        best_update: the update it was seen at.
        validations_without_best: for early stopping.
        validation_due: the weights are to be validated before the next update.
        counts: sums since the last record.
        halvings: of micro-batches, where memory ran out.
    """

    update: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    device_seconds: float = 0.0
    target_tokens: int = 0
    best_rank: list[float] = field(default_factory=list)
    best_update: int = 0
    validations_without_best: int = 0
    validation_due: bool = False
    counts: Counts = field(default_factory=Counts)
    halvings: Halvings = field(default_factory=Halvings)

    def __post_init__(self) -> None:
        counters = ("update", "seconds", "target_tokens", "best_update", "validations_without_best")
        values = {name: getattr(self, name) for name in counters}
        values |= {"position.epoch": self.position.epoch}
        values |= {"position.update_in_epoch": self.position.update_in_epoch}
        for name, value in values.items():
            if not 0 <= value < math.inf:
                raise UserError(f"{name}={value} is no counter")


class DamagedCheckpointError(UserError):
    """A checkpoint is not what was written."""


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: the run's `checkpoints/`.
        every: updates between regular checkpoints; an interruption leaves one in between.
        keep_last: how many of the last regular ones are kept, and averaged in the end; the newest
            and the best are besides, and two in any case.
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
        return self._regular_updates()[-self._keep_last :]

    def _regular_updates(self) -> list[int]:
        updates = self.updates()
        return [u for u in updates if u % self._every == 0 or u == updates[-1]]

    def save(
        self, transformer: Transformer, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> Path:
        """Write a checkpoint, then remove those that are no longer needed."""
        path = self.path(progress.update)
        # Weights and two moments, all float32, each with its name.
        needed = sum(3 * 4 * tensor.numel() + 2048 for tensor in transformer.parameters())
        with atomic_folder(path, needed) as temporary:
            save_weights(transformer, temporary / WEIGHTS_FILE)
            # Through a stream of ours: given a path, torch does not say why it cannot write.
            with (temporary / STATE_FILE).open("wb") as stream:
                torch.save(optimizer.state_dict(), stream)
            files = {name: _file_facts(temporary / name) for name in (WEIGHTS_FILE, STATE_FILE)}
            _write_manifest(temporary, progress, files)
        self._prune(progress.best_update)
        return path

    def note(self, progress: Progress) -> None:
        """Write new counters into the checkpoint of `progress.update`, whose weights stay."""
        path = self.path(progress.update)
        _write_manifest(path, progress, _read_manifest(path)["files"])
        self._prune(progress.best_update)

    def newest(self) -> int:
        """The update of the newest checkpoint that is whole; 0 when there is none.

        Damaged ones that are newer are named and put out of the way. Nothing else may be writing.

        Raises:
            UserError: it is of another version of this program.
        """
        # What a killed process was writing or removing.
        for path in self.folder.glob(".update_*"):
            shutil.rmtree(path)
        updates = self.updates()
        for update in reversed(updates):
            try:
                self.verify(update)
            except DamagedCheckpointError as error:
                aside = self.path(update).with_name(f"damaged_{self.path(update).name}")
                shutil.rmtree(aside, ignore_errors=True)
                os.replace(self.path(update), aside)
                logger.warning("%s; it is put aside as %s", error, aside)
            else:
                return update
        if updates:
            logger.warning("%s: no checkpoint is whole: training starts over", self.folder)
        return 0

    def load(
        self, update: int, transformer: Transformer, optimizer: torch.optim.Optimizer
    ) -> Progress:
        """Restore the checkpoint of an update: weights, moments, progress.

        Decays and the like stay those of `optimizer`, which its configuration has set.

        Raises:
            UserError: it is damaged, or is not of this model.
        """
        path = self.path(update)
        manifest = _read_manifest(path)
        load_weights(transformer, read_weights(path / WEIGHTS_FILE), path / WEIGHTS_FILE)
        try:
            state = torch.load(path / STATE_FILE, map_location="cpu", weights_only=True)
            _load_moments(optimizer, state)
        except Exception as error:  # whatever a damaged or hostile file makes torch raise
            reason = one_line(first_line(error))
            raise UserError(
                f"{path / STATE_FILE}: does not hold the optimizer of this model: {reason}"
            ) from None
        progress: Progress = from_mapping(Progress, manifest["progress"], str(path / MANIFEST_FILE))
        return progress

    def average(self, updates: Sequence[int]) -> dict[str, torch.Tensor]:
        """The mean of the weights of some checkpoints (Vaswani et al. 2017, section 6.1)."""
        total: dict[str, torch.Tensor] = {}
        for update in updates:
            for name, tensor in read_weights(self.path(update) / WEIGHTS_FILE).items():
                # In float64, so that the order of the sum does not show in float32.
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / len(updates)).float() for name, tensor in total.items()}

    def whole(self, updates: Sequence[int]) -> list[int]:
        """Those of some checkpoints that are whole; the others are named."""
        found = []
        for update in updates:
            try:
                self.verify(update)
            except DamagedCheckpointError as error:
                logger.warning("%s; it is left out", error)
            else:
                found.append(update)
        return found

    def verify(self, update: int) -> None:
        """Check that a checkpoint is what was written.

        Raises:
            DamagedCheckpointError: it is not.
            UserError: it is of another version of this program.
        """
        path = self.path(update)
        files = _read_manifest(path)["files"]
        for name in (WEIGHTS_FILE, STATE_FILE):
            file = path / name
            if file.is_symlink() or not file.is_file():
                raise DamagedCheckpointError(f"{file} is missing or not a file")
            size, expected = file.stat().st_size, files[name]["bytes"]
            if size != expected:
                raise DamagedCheckpointError(
                    f"{file} is damaged: it has {size:,} bytes, not {expected:,}"
                )
            if _file_facts(file) != files[name]:
                raise DamagedCheckpointError(
                    f"{file} is damaged: its checksum is not that of the manifest"
                )

    def _prune(self, best_update: int) -> None:
        last = self._regular_updates()[-max(_FEWEST, self._keep_last) :]
        needed = {*last, best_update}
        for update in self.updates():
            if update not in needed:
                # By way of another name: half a checkpoint must not look like one.
                retired = self.path(update).with_name(f".{self.path(update).name}.old")
                shutil.rmtree(retired, ignore_errors=True)
                os.replace(self.path(update), retired)
                shutil.rmtree(retired)


def _write_manifest(path: Path, progress: Progress, files: dict[str, Any]) -> None:
    manifest = {
        "format_version": FORMAT_VERSION,
        "update": progress.update,
        "files": files,
        "progress": asdict(progress),
    }
    write_json(path / MANIFEST_FILE, {**manifest, "sha256": _digest_of(manifest)})


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, after a check that it is as it was written."""
    file = path / MANIFEST_FILE
    if file.is_symlink():
        raise DamagedCheckpointError(f"{file} is not a file")
    try:
        manifest = read_json(file)
    except (UserError, OSError) as error:
        raise DamagedCheckpointError(f"{file} is damaged or missing: {error}") from None
    # Version 1 knew no versions.
    is_of_version_1 = isinstance(manifest, dict) and manifest.keys() == {"update", "sha256"}
    if not is_of_version_1 and (
        not isinstance(manifest, dict) or manifest.pop("sha256", None) != _digest_of(manifest)
    ):
        raise DamagedCheckpointError(f"{file} is damaged: its checksum is not its own")
    version = 1 if is_of_version_1 else manifest["format_version"]
    if version != FORMAT_VERSION:
        raise UserError(
            f"{file} has format_version {version}, this program reads {FORMAT_VERSION}: continue"
            " with the version of the program that began the run (environment.json names its"
            " commit), or choose another run.name"
        )
    if path.name != f"update_{manifest['update']:07d}":
        raise DamagedCheckpointError(f"{file} is that of update {manifest['update']}")
    return manifest


def _digest_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _load_moments(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    settings = [
        {name: value for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
    optimizer.load_state_dict(saved)
    # torch takes the saved settings too; whoever goes on with others has changed the configuration.
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)
    _check_moments(optimizer)


def _check_moments(optimizer: torch.optim.Optimizer) -> None:
    """torch takes any moments of any shape; the step would then fail, or worse, broadcast."""
    for group in optimizer.param_groups:
        names = {"step", *(("momentum",) if "momentum" in group else ("exp_avg", "exp_avg_sq"))}
        for parameter in group["params"]:
            moments = optimizer.state.get(parameter, {})
            if moments and set(moments) != names:
                raise ValueError(f"{', '.join(moments)} in place of {', '.join(sorted(names))}")
            for name, value in moments.items():
                is_moment = name != "step"
                fits = isinstance(value, torch.Tensor) and (
                    value.dtype == torch.float32
                    and value.shape == (parameter.shape if is_moment else ())
                    and bool(value.isfinite().all())
                )
                if not fits:
                    raise ValueError(f"{name} does not fit a weight of {tuple(parameter.shape)}")


def _file_facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
