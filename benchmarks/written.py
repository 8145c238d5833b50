"""What benchmarks write: a dated file each, which says where its figures come from."""

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from nmt.files import write_json
from nmt.processor import processor_name
from nmt.training.environment import commit

_RESULTS = Path(__file__).parent / "results"


def write_result(name: str, result: dict[str, Any], path: Path | None = None) -> None:
    """Write `name` and the date as a file of results, or `path`, and say where."""
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    heading = {
        "date": date,
        "commit": commit(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "processor": processor_name(),
    }
    path = path or _RESULTS / f"{name}-{date}.json"
    write_json(path, heading | result)
    print(f"written: {path}", file=sys.stderr)
