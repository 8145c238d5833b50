"""Configuration groups `training` and `tracking`."""

from dataclasses import field
from enum import StrEnum
from typing import Any

from pydantic import model_validator

from nmt.config.fields import MAX_SEED, checked_dataclass, leaf_fields, option

Precision = StrEnum("Precision", "auto float32 bfloat16")
Compilation = StrEnum("Compilation", "auto always never")
ValidationMetric = StrEnum("ValidationMetric", "bleu loss")

_MAX_UPDATES = 1_000_000_000


@checked_dataclass
class TrainingConfig:
    """Length, objective and processes of the training."""

    seed: int = option(1, ge=0, le=MAX_SEED)
    """Seed of the initial weights, the order of the data, and dropout."""
    initial_model: str = ""
    """Model or run folder whose weights the training starts from; empty: random weights."""
    max_updates: int = option(100_000, ge=1, le=_MAX_UPDATES)
    """Maximum number of optimizer steps."""
    max_minutes: float = option(0.0, ge=0, le=10_000_000)
    """Maximum minutes of training and validation, summed over restarts; 0: no limit."""
    label_smoothing: float = option(0.1, ge=0, lt=1)
    """The paper's epsilon_ls (section 5.4)."""
    balance_weight: float = option(0.01, ge=0, le=1_000)
    """Weight of the loss that balances the experts of model.num_experts."""
    precision: Precision = Precision.auto
    """Arithmetic of forward and backward; `auto`: bfloat16 if a GPU supports it, else float32."""
    compile: Compilation = Compilation.auto
    """Compile the layers with torch.compile, for GPUs; on a single GPU with batching.layout=packed,
    also capture the passes as a CUDA graph. This takes up to a few minutes at the start, and a
    resumed run may differ from an uninterrupted one. `auto` is `never`."""
    validate_every: int = option(1_000, ge=1, le=_MAX_UPDATES)
    """Number of updates between validations; a checkpoint is written before each of them."""
    validation_metric: ValidationMetric = ValidationMetric.bleu
    """Metric that selects the best checkpoint and decides on early stopping."""
    patience: int = option(0, ge=0, le=1_000_000)
    """Number of validations in a row without a better validation metric before training stops; 0:
    no early stopping."""
    average_checkpoints: int = option(5, ge=1, le=1_000)
    """Number of last checkpoints to average (section 6.1); the average is used if it is better than
    the best checkpoint."""
    log_every: int = option(50, ge=1, le=_MAX_UPDATES, free=True)
    """Number of updates between log lines and entries of metrics.jsonl."""
    max_gradient_spike: float = option(10.0, ge=0, le=1_000_000)
    """Skip updates with a gradient norm above this many times the running mean; 0 means never."""
    max_skipped_in_a_row: int = option(20, ge=0, le=1_000_000)
    """Stop the training if, at a log line or checkpoint, at least this many updates in a row have
    just been skipped; 0 means never."""
    num_processes: int = option(1, ge=1, le=1_024, free=True)
    """Number of processes on this host; each uses one GPU if there are any."""
    num_threads: int = option(0, ge=0, le=1_024, free=True)
    """Number of CPU threads per process; 0: an equal share of the cores idle at the start."""
    max_restarts: int = option(3, ge=0, le=1_000, free=True)
    """Maximum number of restarts of all processes, from the last checkpoint, after a failure."""
    timeout: float = option(300.0, ge=1, le=86_400, free=True)
    """Seconds after which a process stops waiting for the gradients of another one."""

    @model_validator(mode="before")
    @classmethod
    def _from_earlier_values(cls, values: Any) -> Any:
        """Convert the boolean `compile` of earlier run folders."""
        if isinstance(values, dict) and isinstance(values.get("compile"), bool):
            return {**values, "compile": "always" if values["compile"] else "never"}
        return values


@checked_dataclass
class WandbConfig:
    """Weights & Biases; without a login or a connection, everything is stored in the run folder."""

    enabled: bool = option(False, free=True)
    """Send metrics, translations and artifacts; the preset tracking=wandb sets this key."""
    project: str = option("", free=True, used_with=("enabled", True))
    """Project (default: WANDB_PROJECT, or nmt)."""
    entity: str = option("", free=True, used_with=("enabled", True))
    """User or team of the project (default: WANDB_ENTITY, or that of the login)."""
    name: str = option("", free=True, used_with=("enabled", True))
    """Name of the run (default: WANDB_NAME, or that of the run folder); the runs of a sweep also
    have the names of their folders."""
    group: str = option("", free=True, used_with=("enabled", True))
    """Group of runs (default: WANDB_RUN_GROUP, or the name of the sweep)."""
    tags: list[str] = option([], free=True, used_with=("enabled", True))
    """Tags (default: WANDB_TAGS)."""
    notes: str = option("", free=True, used_with=("enabled", True))
    """Notes on the run (default: WANDB_NOTES)."""
    upload_seconds: int = option(300, ge=1, le=86_400, free=True, used_with=("enabled", True))
    """Maximum wait in seconds for the upload of the corpus files, and of the model."""


@checked_dataclass
class TrackingConfig:
    """Trackers; several can be used at once. `metrics.jsonl` is always written."""

    wandb: WandbConfig = field(default_factory=WandbConfig)
    tensorboard: bool = option(False, free=True)
    """Write event files for TensorBoard to the run folder."""

    @model_validator(mode="before")
    @classmethod
    def _from_earlier_keys(cls, values: Any) -> Any:
        """Convert the keys of earlier run folders: a boolean `wandb`, and its settings beside it.

        Settings of a disabled tracker are dropped, because they were allowed.
        """
        if not isinstance(values, dict) or not isinstance(values.get("wandb"), bool):
            return values
        inner = {key: values[key] for key in values.keys() & leaf_fields(WandbConfig).keys()}
        others = {key: value for key, value in values.items() if key not in inner}
        return {**others, "wandb": {"enabled": True, **inner} if values["wandb"] else {}}
