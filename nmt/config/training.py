"""Configuration groups `training` and `tracking`."""

from dataclasses import dataclass
from enum import StrEnum

from nmt.config.fields import MAX_SEED, bounded, check_fields, declared

Precision = StrEnum("Precision", "auto float32 bfloat16")
ValidationMetric = StrEnum("ValidationMetric", "bleu loss")
TrackingBackend = StrEnum("TrackingBackend", "files wandb")

_MAX_UPDATES = 1_000_000_000


@dataclass(frozen=True)
class TrainingConfig:
    """Length, objective and processes of the training."""

    seed: int = bounded(1, 0, MAX_SEED)
    """Seed of the initial weights, the order of the data, and dropout."""
    max_updates: int = bounded(100_000, 1, _MAX_UPDATES)
    """Maximum number of optimizer steps."""
    max_minutes: float = bounded(0.0, 0, 10_000_000)
    """Minutes of training, validation and restarts included, after which it stops; 0: no limit."""
    label_smoothing: float = bounded(0.1, 0, below=1)
    """The paper's epsilon_ls (section 5.4)."""
    precision: Precision = Precision.auto
    """Arithmetic of forward and backward; auto is bfloat16 on a GPU that supports it."""
    compile: bool = False
    """Compile the layers with torch.compile, for GPUs: it takes minutes at the start, and a resumed
    run may differ from an uninterrupted one."""
    validate_every: int = bounded(1_000, 1, _MAX_UPDATES)
    """Number of updates between validations; each one writes a checkpoint."""
    validation_metric: ValidationMetric = ValidationMetric.bleu
    """Metric of the best checkpoint and of early stopping."""
    patience: int = bounded(0, 0, 1_000_000)
    """Number of validations without improvement before training stops; 0: no early stopping."""
    average_checkpoints: int = bounded(5, 1, 1_000)
    """Number of last checkpoints to average (section 6.1), if that is better than the best one."""
    log_every: int = bounded(50, 1, _MAX_UPDATES, free=True)
    """Number of updates between log lines and entries of metrics.jsonl."""
    max_gradient_spike: float = bounded(10.0, 0, 1_000_000)
    """Skip updates with a gradient norm above this many times the running mean; 0 means never."""
    max_skipped_in_a_row: int = bounded(20, 0, 1_000_000)
    """Stop training with a diagnosis after this many consecutive skipped updates; 0 means never."""
    num_processes: int = bounded(1, 1, 1_024, free=True)
    """Number of processes on this host, one per GPU where there are GPUs."""
    num_threads: int = bounded(0, 0, 1_024, free=True)
    """Number of CPU threads per process; 0 is an equal share of the idle cores at the start."""
    max_restarts: int = bounded(3, 0, 1_000, free=True)
    """Maximum number of restarts of all processes, from the last checkpoint, after a failure."""
    timeout: float = bounded(300.0, 1, 86_400, free=True)
    """Seconds after which processes stop waiting for the gradients of another one."""

    def __post_init__(self) -> None:
        check_fields(self, "training.")


@dataclass(frozen=True)
class TrackingConfig:
    """Destinations of metrics; `metrics.jsonl` is always written."""

    backend: TrackingBackend = declared(TrackingBackend.files, free=True)
    """`wandb` also sends metrics to Weights & Biases, or stores them offline when not logged in."""
    project: str = declared("nmt", free=True)
    """Weights & Biases project."""
