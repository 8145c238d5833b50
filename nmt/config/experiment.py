"""Configuration groups `run` and `prepare`; the configuration of one experiment."""

import re
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from nmt.base.layout import CORPORA_FOLDER, RUNS_FOLDER
from nmt.config.batching import BatchingConfig, Layout
from nmt.config.corpus import CorpusConfig
from nmt.config.decoding import DecodingConfig
from nmt.config.evaluation import EvaluationConfig
from nmt.config.fields import FolderName, checked_dataclass, free_keys, option, require
from nmt.config.model import Architecture, ModelConfig, TiedEmbeddings
from nmt.config.optimizer import OptimizerConfig, ScheduleConfig, ScheduleName
from nmt.config.tokenizer import TokenizerConfig
from nmt.config.training import Compilation, TrackingConfig, TrainingConfig

ExecutorName = StrEnum("ExecutorName", "local slurm ray")


@checked_dataclass
class RunConfig:
    """Folder of a run, and how it is carried out."""

    name: FolderName = option("run", free=True)
    """Name of the run's folder, `<outputs>/runs/<name>`; the same name continues the run."""
    outputs: str = option("outputs", free=True)
    """Folder for all files made at run time."""
    folder: str = option("", free=True)
    """The run's folder; empty means `<outputs>/runs/<name>`. Set by sweeps."""
    row: str = ""
    """Row of the paper's Table 3, set by sweep=table3; empty: none. The configuration stands for
    row `base`, and its sizes are multiplied by the ratios of this row's values to those of base."""
    accept_changes: str = option("", free=True)
    """Keys, separated by commas, that a resumed run may change, such as training.max_updates."""
    parallel_runs: int = option(1, ge=1, le=1_024, free=True)
    """Number of runs that share this machine: each gets an equal share of the cores, and a GPU if
    there are any."""
    dry_run: bool = option(False, free=True)
    """Report the memory and time that training would take, without training."""


@checked_dataclass
class PrepareConfig:
    """Machines and processes that prepare a corpus; its contents do not depend on them."""

    executor: ExecutorName = option(ExecutorName.local, free=True)
    """`local`: processes of this machine; `slurm`: arrays of jobs; `ray`: a Ray cluster. The last
    two need a shared file system."""
    num_processes: int = option(0, ge=0, le=100_000, free=True)
    """`local`: number of processes; 0: one per core. `slurm`: number of jobs of an array; 0: 64."""
    ray_address: str = option("", free=True, used_with=("executor", ExecutorName.ray))
    """`ray`: address of the cluster; empty means RAY_ADDRESS, or a cluster on this machine."""
    slurm: dict[str, str | int] = option({}, free=True, used_with=("executor", ExecutorName.slurm))
    """`slurm`: parameters of submitit, such as `slurm_partition`, `timeout_min` and `mem_gb`."""


@checked_dataclass
class Config:
    """Configuration of one experiment."""

    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    prepare: PrepareConfig = field(default_factory=PrepareConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        require(
            self.tokenizer.joint
            or bool(self.tokenizer.path)
            or self.model.tied_embeddings is not TiedEmbeddings.three_way,
            "model.tied_embeddings=three_way needs one vocabulary: set tokenizer.joint=true or"
            " model.tied_embeddings=target",
        )
        require(
            self.batching.longest <= self.model.max_length,
            "batching.max_source_length and batching.max_target_length must be at most"
            f" model.max_length={self.model.max_length}",
        )
        is_compiled = self.training.compile is Compilation.always
        require(
            not is_compiled or self.model.architecture is Architecture.transformer,
            f"training.compile=always has no effect with model.architecture="
            f"{self.model.architecture}: leave it out",
        )
        weight, num_experts = self.training.balance_weight, self.model.num_experts
        require(
            not is_compiled or num_experts == 1,
            f"training.compile=always does not support model.num_experts={num_experts}: leave it"
            " out",
        )
        for key, value in (("architecture", Architecture.transformer), ("attention_window", 0)):
            require(
                self.batching.layout is not Layout.packed or getattr(self.model, key) == value,
                f"batching.layout=packed does not support model.{key}={getattr(self.model, key)}:"
                " set batching.layout=bucketed",
            )
        require(
            self.run.parallel_runs == 1 or self.training.num_processes == 1,
            f"run.parallel_runs={self.run.parallel_runs} needs training.num_processes=1",
        )
        require(
            not self.optimizer.lora_rank or bool(self.training.initial_model),
            f"optimizer.lora_rank={self.optimizer.lora_rank} trains changes to existing weights:"
            " name their folder with training.initial_model",
        )
        require(
            num_experts > 1 or weight == TrainingConfig().balance_weight,
            f"training.balance_weight={weight} has no effect without model.num_experts above 1: set"
            " model.num_experts=4, for example, or leave out training.balance_weight",
        )
        schedule, updates = self.schedule, self.training.max_updates
        most = {
            ScheduleName.inverse_square_root: schedule.warmup_updates,  # no limit
            ScheduleName.cosine: updates - 1,
            # A product such as 10 * (1 - 0.8) is slightly below the whole number that is meant.
            ScheduleName.warmup_stable_decay: int(updates * (1 - schedule.decay_share) + 1e-6),
        }[schedule.name]
        require(
            schedule.warmup_updates <= most,
            f"schedule.warmup_updates={schedule.warmup_updates} is too long for"
            f" training.max_updates={updates} with schedule.name={schedule.name}: "
            + (f"set schedule.warmup_updates={most} or less, or " if most else "")
            + "train for longer",
        )

    @property
    def run_folder(self) -> Path:
        """Folder of the run."""
        return Path(self.run.folder or Path(self.run.outputs) / RUNS_FOLDER / self.run.name)

    @property
    def corpora_folder(self) -> Path:
        """Folder of all prepared corpora."""
        return Path(self.run.outputs) / CORPORA_FOLDER


FREE_KEYS = free_keys(Config)
"""Keys that change where and how fast a run works, but not its result, with one exception: numbers
of processes and threads change the order of summation, and so the rounding of results; on GPUs,
also dropout. The path of a corpus is one of these keys: the fingerprint identifies its text."""

RANDOM_KEYS = ("training.seed", "batching.tokens_per_micro_batch")
"""Keys that change a result only by chance: the seed, and the size of micro-batches, which `auto`
finds for each run."""


def is_free_key(key: str) -> bool:
    """Return whether a dotted key changes where and how fast a run works, but not its result."""
    return key.startswith(FREE_KEYS) or bool(re.match(r"corpus\.sources\..*\.path$", key))
