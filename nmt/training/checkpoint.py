"""Checkpoints: everything a run needs to continue as if it had not been interrupted.

checkpoints/update_0010000/{weights.safetensors,training_state.pt,manifest.json}
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt

from nmt.base.errors import UserError, first_line, one_line
from nmt.base.files import atomic_folder, read_json, read_record, remove, write_json
from nmt.base.layout import MANIFEST_FILE, WEIGHTS_FILE
from nmt.data.loader import Position
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.trained_model import load_weights, read_weights, save_weights
from nmt.training.metrics import MetricSums

logger = logging.getLogger(__name__)

STATE_FILE = "training_state.pt"
MICRO_BATCH_SIZE_FILE = "micro_batch_size.json"

# Increase it when the format or the order of an epoch's data changes: at the same position of
# another order, training would repeat some pairs and miss others.
FORMAT_VERSION = 4

# Number of last checkpoints that are always kept, in case the newest is damaged.
_MIN_KEPT = 2


@dataclass(frozen=True)
class TrainingState:
    """Everything but weights and optimizer that a restart needs."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    update: NonNegativeInt = 0  # updates so far, including skipped ones
    position: Position = field(default_factory=Position)  # of the next update
    seconds: Annotated[FiniteFloat, Field(ge=0)] = 0.0  # of training and validation
    device_seconds: float = 0.0  # the same, summed over ranks
    target_tokens: NonNegativeInt = 0
    best_rank: list[float] = field(default_factory=list)  # `ValidationResult.rank`; empty at first
    best_update: int = 0
    validations_without_best: int = 0  # since the last that improved the validation metric
    validation_due: bool = False  # before the next update
    metrics: MetricSums = field(default_factory=MetricSums)


@dataclass(frozen=True)
class MicroBatchSize:
    """The size of micro-batches after memory ran out: `micro_batch_size.json` in the run folder.

    The size stays in use if training restarts from an earlier checkpoint.
    """

    times: int = 0  # how often the size was halved; 0 means that the run is bit-exact
    asked: int = 0  # the configured size; if a continued run has another one, the file is ignored
    used: int = 0  # the size in use, in padded tokens
    first_update: int = 0  # the first update that did not fit

    @classmethod
    def read(cls, run_folder: Path, asked: int) -> "MicroBatchSize":
        """Read the file of a run. If it has none for the configured size `asked`, use that size."""
        path = run_folder / MICRO_BATCH_SIZE_FILE
        if path.is_file():
            stored = read_record(path, cls)
            if stored.asked == asked:
                return stored
        return cls(asked=asked, used=asked)

    def halved(self, largest: int, update: int, run_folder: Path) -> "MicroBatchSize":
        """Halve the smaller of `used` and the `largest` micro-batch of `update`; write the file."""
        used = min(largest, self.used) // 2
        first_update = self.first_update or update
        size = replace(self, times=self.times + 1, used=used, first_update=first_update)
        write_json(run_folder / MICRO_BATCH_SIZE_FILE, asdict(size))
        return size


class DamagedCheckpointError(UserError):
    """A checkpoint differs from what was written."""


@dataclass(frozen=True)
class _Manifest:
    files: dict[str, dict[str, Any]]
    state: TrainingState


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        folder: the run's `checkpoints/`. Links and other names in it are ignored.
        every: updates between regular checkpoints; an interruption writes one in between.
        keep_last: number of `last_updates` to keep and average; at least two are kept. The best
            checkpoint is kept, too.
    """

    def __init__(self, folder: Path, every: int, keep_last: int) -> None:
        self.folder = folder
        self._every = every
        self._keep_last = keep_last

    def path(self, update: int) -> Path:
        """Return the folder of the checkpoint of an update."""
        return self.folder / f"update_{update:07d}"

    def updates(self) -> list[int]:
        """Return the updates that have a checkpoint, oldest first."""
        paths = self.folder.glob("update_*")
        folders = [path for path in paths if path.is_dir() and not path.is_symlink()]
        names = [re.fullmatch(r"update_([0-9]{7}|[1-9][0-9]{7,})", path.name) for path in folders]
        return sorted(int(name[1]) for name in names if name)

    def last_updates(self, number: int) -> list[int]:
        """Return up to `number` updates: of the newest checkpoint and of regular ones before it.

        The oldest comes first. Earlier checkpoints of interruptions do not count, so that an
        average does not depend on them.
        """
        updates = self.updates()
        return [u for u in updates if u % self._every == 0 or u == updates[-1]][-number:]

    def save(
        self, network: EncoderDecoder, optimizer: torch.optim.Optimizer, state: TrainingState
    ) -> Path:
        """Write a checkpoint, then remove those that are no longer needed."""
        path = self.path(state.update)
        # Bytes of weights and two moments, all float32, and of their names.
        needed = sum(3 * 4 * tensor.numel() + 2048 for tensor in network.parameters())
        with atomic_folder(path, needed) as temporary:
            save_weights(network, temporary / WEIGHTS_FILE)
            # Not to a path, because torch would not report why it cannot write to it.
            with (temporary / STATE_FILE).open("wb") as stream:
                torch.save(optimizer.state_dict(), stream)
            names = WEIGHTS_FILE, STATE_FILE
            files = {name: _size_and_digest(temporary / name) for name in names}
            _write_manifest(temporary, state, files)
        self._prune(state.best_update)
        return path

    def update_state(self, state: TrainingState) -> None:
        """Replace the training state in the checkpoint of `state.update`."""
        path = self.path(state.update)
        _write_manifest(path, state, _read_manifest(path).files)
        self._prune(state.best_update)

    def newest(self) -> int:
        """Return the update of the newest intact checkpoint; 0 if there is none.

        The files of killed processes are removed, so only one rank may call this method.
        """
        for path in self.folder.glob(".update_*"):
            remove(path)
        has_any = bool(self.updates())
        newest = next(self.intact(), 0)
        if has_any and not newest:
            logger.warning("%s: no intact checkpoint: training starts at update 0", self.folder)
        return newest

    def intact(self) -> Iterator[int]:
        """Yield the updates of intact checkpoints, newest first; rename the others `damaged_…`."""
        for update in reversed(self.updates()):
            try:
                self.verify(update)
            except DamagedCheckpointError as error:
                path = self.path(update)
                renamed = path.with_name(f"damaged_{path.name}")
                remove(renamed)
                os.replace(path, renamed)
                logger.warning("%s; renamed to %s", error, renamed)
            else:
                yield update

    def load(
        self, update: int, network: EncoderDecoder, optimizer: torch.optim.Optimizer
    ) -> TrainingState:
        """Restore weights, moments and training state, but not the optimizer's hyperparameters.

        Raises:
            UserError: the checkpoint is damaged, or belongs to another model.
        """
        path = self.path(update)
        manifest = _read_manifest(path)
        load_weights(network, read_weights(path / WEIGHTS_FILE), path / WEIGHTS_FILE)
        try:
            saved = torch.load(path / STATE_FILE, map_location="cpu", weights_only=True)
            _load_moments(optimizer, saved)
        except Exception as error:  # torch raises errors of any kind for damaged files
            reason = one_line(first_line(error))
            raise UserError(
                f"{path / STATE_FILE}: does not hold the optimizer of this model: {reason}"
            ) from None
        return manifest.state

    def average(self, updates: Sequence[int]) -> dict[str, torch.Tensor]:
        """Return the mean of the weights of checkpoints (Vaswani et al. 2017, section 6.1)."""
        total: dict[str, torch.Tensor] = {}
        for update in updates:
            for name, tensor in read_weights(self.path(update) / WEIGHTS_FILE).items():
                # In float64, so that the order of the sum does not change the float32 result.
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
        return {name: (tensor / len(updates)).float() for name, tensor in total.items()}

    def verify(self, update: int) -> None:
        """Raise DamagedCheckpointError if a file differs from what was written."""
        path = self.path(update)
        files = _read_manifest(path).files
        for file in (path / WEIGHTS_FILE, path / STATE_FILE):
            is_file = file.is_file() and not file.is_symlink()
            if not is_file or _size_and_digest(file) != files[file.name]:
                raise DamagedCheckpointError(f"{file} is missing or damaged")

    def _prune(self, best_update: int) -> None:
        needed = {*self.last_updates(max(_MIN_KEPT, self._keep_last)), best_update}
        for update in set(self.updates()) - needed:
            path = self.path(update)
            # Renamed first: a partly removed checkpoint would look like a damaged one.
            retired = path.with_name(f".{path.name}.old")
            os.replace(path, retired)
            remove(retired)


def _write_manifest(path: Path, state: TrainingState, files: dict[str, Any]) -> None:
    manifest = {"format_version": FORMAT_VERSION, "update": state.update, "files": files}
    manifest["state"] = asdict(state)
    write_json(path / MANIFEST_FILE, {**manifest, "sha256": _digest_of(manifest)})


def _read_manifest(path: Path) -> _Manifest:
    """Read the manifest of a checkpoint and verify its checksum."""
    file = path / MANIFEST_FILE
    values: Any = None
    if not file.is_symlink():
        with suppress(UserError, OSError):
            values = read_json(file)
    if not isinstance(values, dict) or values.pop("sha256", None) != _digest_of(values):
        raise DamagedCheckpointError(f"{file} is missing or damaged")
    version = values.get("format_version")
    if version != FORMAT_VERSION:
        raise UserError(
            f"{file} has format_version {version}, this program reads {FORMAT_VERSION}: continue"
            " with the version of the program that began the run, or choose another run.name"
        )
    return read_record(file, _Manifest, "choose another run.name")


def _digest_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _load_moments(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Load moments; ValueError for wrong names or shapes, NaN or infinity, which torch accepts."""
    # The hyperparameters are those of the configuration, which may have changed.
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({**saved, "param_groups": groups})
    for group in optimizer.param_groups:
        names = ("momentum",) if "momentum" in group else ("exp_avg", "exp_avg_sq")
        for parameter in group["params"]:
            moments = optimizer.state[parameter]
            expected = {"step": (), **dict.fromkeys(names, tuple(parameter.shape))}
            found = {name: tuple(value.shape) for name, value in moments.items()}
            if found != expected:
                raise ValueError(f"{found} instead of {expected}")
            if not all(bool(value.isfinite().all()) for value in moments.values()):
                raise ValueError(f"NaN or infinity in {', '.join(moments)}")


def _size_and_digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
