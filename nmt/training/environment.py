"""What a score depends on besides the configuration: commit, versions, hardware."""

import platform
import secrets
import subprocess
from pathlib import Path
from typing import Any

import torch

from nmt.config import TrainingConfig
from nmt.packages import versions
from nmt.processor import processor_name
from nmt.training.distributed import num_processes, threads_per_process

_PACKAGES = (
    "torch",
    "numpy",
    "sentencepiece",
    "datasets",
    "pyarrow",
    "sacrebleu",
    "hydra-core",
    "safetensors",
)


def environment(corpus_folder: Path, training: TrainingConfig) -> dict[str, Any]:
    """The contents of a run's `environment.json`."""
    processes, local_processes = num_processes(training)
    return {
        "run_id": secrets.token_hex(4),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": versions(_PACKAGES),
        "machine": platform.machine(),
        "processor": processor_name(),
        "processes": processes,
        "threads": threads_per_process(training.num_threads, local_processes),
        "gpus": [
            torch.cuda.get_device_name(index)
            for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
        ],
        "corpus": corpus_folder.name,
    }


def commit() -> str:
    """The commit of this source tree, with a mark when it has been changed since."""
    here = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return described.stdout.strip()
