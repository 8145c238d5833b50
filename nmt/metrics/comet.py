"""COMET (Rei et al. 2022) by the command `comet-score`, if the command and its weights exist.

unbabel-comet needs other versions of numpy than this project, so it is installed in an environment
of its own and run as a command. It runs offline: users download the weights themselves.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt.base.files import write_lines
from nmt.metrics.scores import Score

COMMAND = "comet-score"
MODEL = "Unbabel/wmt22-comet-da"

NOT_INSTALLED = "COMET: not installed; `pipx install unbabel-comet`; see docs/reference/scores.md"


class CometError(Exception):
    """COMET could not be computed; the message gives the reason and refers to the installation."""


def comet_score(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> Score:
    """Score translations with COMET, which supports one reference per sentence.

    Returns:
        A score from 0 to 1, with the name of COMET's model as signature.

    Raises:
        CometError: COMET or its weights are not installed, or the command failed.
    """
    command = shutil.which(COMMAND) or shutil.which(COMMAND, path=str(Path(sys.executable).parent))
    if command is None:
        raise CometError(NOT_INSTALLED)
    with tempfile.TemporaryDirectory() as folder:
        arguments = [command, "--model", MODEL, "--quiet", "--only_system"]
        arguments += ["--gpus", "1" if torch.cuda.is_available() else "0"]
        for option, lines in (("-s", sources), ("-t", hypotheses), ("-r", references)):
            path = Path(folder, option)
            # COMET also splits its input at other characters than "\n".
            write_lines(path, [" ".join(line.splitlines()) for line in lines])
            arguments += [option, str(path)]
        offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
        process = subprocess.run(
            arguments, capture_output=True, text=True, check=False, env=offline
        )
    scores = re.findall(r"score:\s*(-?\d+(?:\.\d+)?)", process.stdout)
    if process.returncode or not scores:
        lines = process.stderr.strip().splitlines() or ["no message"]
        raise CometError(
            f"COMET: {COMMAND} failed: {lines[-1][:200]}; docs/reference/scores.md describes how to"
            " install its weights"
        )
    return Score(float(scores[-1]), MODEL)
