"""Runs of a sweep on a Ray cluster, by Hydra's joblib launcher."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from nmt.base.errors import UserError
from nmt.base.ray_cluster import connect_to_ray

_OWN_VARIABLES = ("NMT_", "HYDRA_", "WANDB_")


def register_ray(cores_per_run: int, num_runs: int) -> None:
    """Connect to the cluster of RAY_ADDRESS, and make it the backend of Hydra's joblib launcher.

    Each run reserves cores and, if the cluster has GPUs, one GPU. It uses the environment variables
    of nmt, Hydra and wandb, and the working directory of this process, so all hosts need the same
    file system.

    Args:
        cores_per_run: number of cores that a run reserves, at least one.
        num_runs: number of runs at a time, `hydra.launcher.n_jobs`.

    Raises:
        UserError: Ray is missing, there is no cluster, fewer than `num_runs` runs fit into it, or
            `num_runs` is below 2.
    """
    connect_to_ray("", "cluster=ray")
    # Imported here, because these imports take seconds.
    import ray  # noqa: PLC0415
    from joblib import register_parallel_backend  # noqa: PLC0415
    from ray.util.joblib.ray_backend import RayBackend  # noqa: PLC0415

    nodes = [one["Resources"].get("CPU", 0) for one in ray.nodes() if one["Alive"]]  # type: ignore[no-untyped-call]
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    reserved = {"num_cpus": max(1, cores_per_run), "num_gpus": min(1, resources.get("GPU", 0))}
    capacity = sum(int(cores // reserved["num_cpus"]) for cores in nodes)
    if reserved["num_gpus"]:
        capacity = min(capacity, int(resources["GPU"]))
    # joblib does not use its backend for one run at a time. For too many runs, Ray would wait for
    # further nodes without a limit.
    if not 2 <= num_runs <= capacity:
        raise UserError(
            f"hydra.launcher.n_jobs={num_runs} must be from 2 to the number of runs that fit into"
            f" the Ray cluster, {capacity}: each takes {reserved['num_cpus']} cores of a node"
            " (training.num_threads) and, if there are GPUs, one GPU"
        )
    own = {name: value for name, value in os.environ.items() if name.startswith(_OWN_VARIABLES)}
    set_up = partial(_set_up, os.getcwd(), own)

    class Backend(RayBackend):
        """Ray's backend, whose workers are set up before their first run."""

        def configure(self, *arguments: Any, **options: Any) -> Any:
            """Start the workers."""
            return super().configure(*arguments, **dict(options, initializer=set_up))

    # Hydra's launcher sets `backend` to loky, whatever the configuration is.
    register_parallel_backend(
        "loky", lambda **options: Backend(ray_remote_args=reserved, **options)
    )


def _set_up(folder: str, variables: Mapping[str, str]) -> None:
    os.chdir(folder)
    os.environ.update(variables)
