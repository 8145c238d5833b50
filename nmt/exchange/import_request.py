"""What the process that imports a folder gets, and what it returns."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIGABYTE = 10**9
NUM_TEXTS = 1_000
"""Number of texts on which a model and its original are compared."""


@dataclass(frozen=True)
class Limits:
    """Limits of the process.

    Attributes:
        memory: bytes.
        reading: seconds of processor time until the model is written.
        comparing: seconds of processor time for the comparison with the original.
    """

    memory: int
    reading: int
    comparing: int

    @classmethod
    def of_folder(cls, folder: Path) -> "Limits":
        """Return the limits for the files of a folder; the factors fit float64 twice."""
        num_bytes = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        size = num_bytes / GIGABYTE
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = min(int((2 + 20 * size) * GIGABYTE), available)
        return cls(memory, int(8 + 100 * size), int(60 + 36_000 * size))


@dataclass(frozen=True)
class Request:
    """What to import.

    Attributes:
        folder: the folder of the other program.
        name: what messages call it.
        workspace: an empty folder for temporary files.
        out: an empty folder for the model.
        direction: source and target language, or empty.
        texts: sources for the comparison; empty for texts of random pieces.
        limits: limits of the process.
    """

    folder: str
    name: str
    workspace: str
    out: str
    direction: str
    texts: list[str]
    limits: Limits


@dataclass(frozen=True)
class Imported:
    """A written model folder.

    Attributes:
        config: the contents of `config.yaml`.
        num_parameters: number of parameters.
        compared: sentences on the comparison with the original.
        languages: target languages, one of which each source text begins with; or none.
    """

    config: dict[str, Any]
    num_parameters: int
    compared: list[str]
    languages: list[str]
