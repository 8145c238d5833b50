"""Configuration group `prepare`: where the work of preparing a corpus is done."""

from enum import StrEnum

from nmt.config.fields import checked_dataclass, option

ExecutorName = StrEnum("ExecutorName", "local slurm ray")


@checked_dataclass
class PrepareConfig:
    """Where the work of preparing a corpus is done; the corpus does not depend on it."""

    executor: ExecutorName = option(ExecutorName.local, free=True)
    """`local`: processes of this machine; `slurm`: arrays of jobs; `ray`: a Ray cluster. The last
    two need a shared file system."""
    num_processes: int = option(0, ge=0, le=100_000, free=True)
    """`local`: number of processes, 0 means one per core. `slurm`: jobs of an array, 0 means 64."""
    ray_address: str = option("", free=True, used_with=("executor", ExecutorName.ray))
    """`ray`: address of the cluster; empty means RAY_ADDRESS, or a cluster on this machine."""
    slurm: dict[str, str | int] = option({}, free=True, used_with=("executor", ExecutorName.slurm))
    """`slurm`: parameters of submitit, such as `slurm_partition`, `timeout_min` and `mem_gb`."""
