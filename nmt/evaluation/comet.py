"""COMET (Rei et al. 2022), where its command and its weights are installed.

unbabel-comet wants other versions of numpy than we do, so it lives in an environment of its own and
is a command to us, `comet-score`. It is never allowed to download: weights are fetched once, by the
user, on purpose.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.evaluation.scores import Score
from nmt.files import write_lines

COMMAND = "comet-score"
MODEL = "Unbabel/wmt22-comet-da"

HOW_TO_GET_IT = "COMET: not installed; `pipx install unbabel-comet`, then see docs/evaluation.md"


@dataclass(frozen=True)
class Comet:
    """COMET of one set of translations, or why there is none.

    Attributes:
        score: COMET with the model's name as signature, 0 to 1; None where there is none.
        note: a line for the user, "" where all is well.
    """

    score: Score | None
    note: str


def comet_score(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> Comet:
    """Score translations with COMET; it knows one reference a sentence."""
    command = shutil.which(COMMAND) or shutil.which(COMMAND, path=str(Path(sys.executable).parent))
    if command is None:
        return Comet(None, HOW_TO_GET_IT)
    with tempfile.TemporaryDirectory() as name:
        texts = {"source": sources, "translation": hypotheses, "reference": references}
        paths = [Path(name) / f"{kind}.txt" for kind in texts]
        for path, lines in zip(paths, texts.values(), strict=True):
            # COMET splits lines as Python does, at more than "\n".
            write_lines(path, [" ".join(line.splitlines()) for line in lines])
        ended = subprocess.run(
            _call(command, paths),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    found = re.findall(r"score:\s*(-?\d+(?:\.\d+)?)", ended.stdout)
    if ended.returncode or not found:
        lines = ended.stderr.strip().splitlines() or ["it said nothing"]
        return Comet(
            None,
            f"COMET: {COMMAND} failed; if its weights are missing, see docs/evaluation.md. It said:"
            f" {lines[-1][:200]}",
        )
    return Comet(Score(float(found[-1]), MODEL), "")


def _call(command: str, paths: Sequence[Path]) -> list[str]:
    source, translation, reference = map(str, paths)
    files = ["-s", source, "-t", translation, "-r", reference]
    gpus = "1" if torch.cuda.is_available() else "0"
    return [command, *files, "--model", MODEL, "--gpus", gpus, "--quiet", "--only_system"]
