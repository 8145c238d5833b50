"""Configuration groups `optimizer` and `schedule`."""

from dataclasses import dataclass
from enum import StrEnum

from nmt.config.fields import bounded, check_fields

OptimizerName = StrEnum("OptimizerName", "adam adamw muon")
ScheduleName = StrEnum("ScheduleName", "inverse_square_root cosine warmup_stable_decay")

_DECOUPLED = ("name", OptimizerName.adamw, OptimizerName.muon)
_DECAYING = ("name", ScheduleName.cosine, ScheduleName.warmup_stable_decay)
_MAX_RATE = 100


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam as in the paper (section 5.3), AdamW, or Muon for weight matrices with AdamW for others.

    All of them clip gradients, which the paper does not mention, unless `max_gradient_norm` is 0.
    """

    name: OptimizerName = OptimizerName.adam
    """The optimizer."""
    beta1: float = bounded(0.9, 0, below=1)
    """Decay of the first moment."""
    beta2: float = bounded(0.98, 0, below=1)
    """Decay of the second moment."""
    epsilon: float = bounded(1e-9, 0, 1)
    """Added to the denominator."""
    weight_decay: float = bounded(0.0, 0, 100, used_with=_DECOUPLED)
    """Decoupled weight decay per update, multiplied by the learning rate; matrices only."""
    momentum: float = bounded(0.95, 0, below=1, used_with=("name", OptimizerName.muon))
    """Decay of Muon's momentum; that of Adam is beta1."""
    max_gradient_norm: float = bounded(1.0, 0, 1_000_000)
    """Maximum norm of the whole gradient, which is clipped to it; 0 disables clipping."""

    def __post_init__(self) -> None:
        check_fields(self, "optimizer.")


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate, a pure function of the update."""

    name: ScheduleName = ScheduleName.inverse_square_root
    """Shape after warm-up."""
    peak_learning_rate: float = bounded(7e-4, above=0, at_most=_MAX_RATE)
    """Learning rate at the end of warm-up; the paper's is (width * warmup_updates) ** -0.5."""
    warmup_updates: int = bounded(4_000, 1, 1_000_000_000)
    """Number of updates of linear warm-up."""
    final_learning_rate: float = bounded(0.0, 0, _MAX_RATE, used_with=_DECAYING)
    """`cosine`, `warmup_stable_decay`: learning rate at training.max_updates."""
    decay_share: float = bounded(
        0.4, above=0, at_most=1, used_with=("name", ScheduleName.warmup_stable_decay)
    )
    """`warmup_stable_decay`: share of training.max_updates, at its end, of the linear decay."""

    def __post_init__(self) -> None:
        check_fields(self, "schedule.")
