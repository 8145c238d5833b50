"""State of a run besides weights and optimizer: counters, and a reduced micro-batch size."""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeInt

from nmt.base.files import read_record, write_json
from nmt.data.loader import Position
from nmt.training.metrics import MetricSums

MICRO_BATCH_SIZE_FILE = "micro_batch_size.json"


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
    validations_without_best: int = 0
    validation_due: bool = False  # before the next update
    metrics: MetricSums = field(default_factory=MetricSums)


@dataclass(frozen=True)
class MicroBatchSize:
    """The size of micro-batches after memory ran out: `micro_batch_size.json` in the run folder.

    The file outlives a restart from an earlier checkpoint.
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
        """Halve the smaller of `used` and `largest`, the largest micro-batch; write the file."""
        used = min(largest, self.used) // 2
        first_update = self.first_update or update
        size = replace(self, times=self.times + 1, used=used, first_update=first_update)
        write_json(run_folder / MICRO_BATCH_SIZE_FILE, asdict(size))
        return size
