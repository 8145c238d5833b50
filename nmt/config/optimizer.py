"""Configuration groups `optimizer` and `schedule`."""

from enum import StrEnum

from nmt.config.fields import checked_dataclass, option, require

OptimizerName = StrEnum("OptimizerName", "adam adamw muon")
ScheduleName = StrEnum("ScheduleName", "inverse_square_root cosine warmup_stable_decay")

_ADAM = ("name", OptimizerName.adam, OptimizerName.adamw)
_DECOUPLED = ("name", OptimizerName.adamw, OptimizerName.muon)
_DECAYING = ("name", ScheduleName.cosine, ScheduleName.warmup_stable_decay)
_MAX_RATE = 100


@checked_dataclass
class OptimizerConfig:
    """Adam as in the paper (section 5.3), AdamW, or Muon for linear layers and AdamW for others."""

    name: OptimizerName = OptimizerName.adam
    """The optimizer."""
    beta1: float = option(0.9, ge=0, lt=1)
    """Decay of the first moment."""
    beta2: float = option(0.98, ge=0, lt=1)
    """Decay of the second moment."""
    epsilon: float = option(1e-9, ge=0, le=1)
    """Number that Adam adds to the denominator of its steps."""
    weight_decay: float = option(0.0, ge=0, le=100, used_with=_DECOUPLED)
    """Decoupled weight decay per update, multiplied by the learning rate; matrices only."""
    momentum: float = option(0.95, ge=0, lt=1, used_with=("name", OptimizerName.muon))
    """Decay of Muon's momentum; that of Adam is beta1."""
    max_gradient_norm: float = option(1.0, ge=0, le=1_000_000)
    """Norm to which larger gradients are clipped; 0: no clipping. The paper mentions none."""
    lora_rank: int = option(0, ge=0, le=4_096, used_with=_ADAM)
    """LoRA (Hu et al. 2021): rank of the trained changes to the weight matrices of attention and
    feed-forward sublayers; no other weights are trained. 0 trains all weights."""
    lora_alpha: float = option(0.0, ge=0, le=1_000_000)
    """LoRA: the changes are multiplied by lora_alpha / lora_rank; 0 stands for 2 · lora_rank."""

    def __post_init__(self) -> None:
        require(
            self.lora_rank > 0 or not self.lora_alpha,
            f"optimizer.lora_alpha={self.lora_alpha:g} has no effect without optimizer.lora_rank",
        )

    @property
    def lora_scale(self) -> float:
        """Factor of the low-rank changes of LoRA, alpha / rank."""
        return (self.lora_alpha or 2.0 * self.lora_rank) / self.lora_rank


@checked_dataclass
class ScheduleConfig:
    """The learning rate as a function of the number of the update."""

    name: ScheduleName = ScheduleName.inverse_square_root
    """Course of the learning rate after warm-up."""
    peak_learning_rate: float = option(7e-4, gt=0, le=_MAX_RATE)
    """Learning rate at the end of warm-up; the paper's is (width * warmup_updates) ** -0.5."""
    warmup_updates: int = option(4_000, ge=1, le=1_000_000_000)
    """Number of updates of linear warm-up."""
    final_learning_rate: float = option(0.0, ge=0, le=_MAX_RATE, used_with=_DECAYING)
    """`cosine`, `warmup_stable_decay`: learning rate at training.max_updates."""
    decay_share: float = option(
        0.4, gt=0, lt=1, used_with=("name", ScheduleName.warmup_stable_decay)
    )
    """`warmup_stable_decay`: share of training.max_updates that the final linear decay takes."""
