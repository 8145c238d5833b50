"""Commit, package versions and hardware: what a score depends on besides the configuration."""

import platform
import secrets
import subprocess
from pathlib import Path
from typing import Any

import torch

from nmt.base.system import processor_name, versions
from nmt.config import Config
from nmt.model.cpu_library import measure_library
from nmt.training.distributed import num_processes, threads_per_process

_PACKAGES = ("torch", "numpy", "sentencepiece", "datasets", "pyarrow", "sacrebleu", "safetensors")


def environment(corpus_folder: Path, config: Config) -> dict[str, Any]:
    """Return the contents of a run's `environment.json`."""
    training = config.training
    processes, local_processes = num_processes(training)
    return {
        "run_id": secrets.token_hex(4),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": versions(_PACKAGES),
        "machine": platform.machine(),
        "processor": processor_name(),
        "cpu_library": measure_library(config.model.width, config.model.feed_forward_width),
        "processes": processes,
        "threads": threads_per_process(training.num_threads, local_processes),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "corpus": corpus_folder.name,
    }


def commit() -> str:
    """Return the commit of the source tree, with `-dirty` if files have changed, or "unknown"."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    folder = Path(__file__).parent
    try:
        return subprocess.check_output(
            command, cwd=folder, text=True, stderr=subprocess.DEVNULL
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
