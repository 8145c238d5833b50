"""Runs `make` in this checkout, and makes it print what it would run."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.namespaces import ROOT

_PRINTS = r"""import json, os, re, sys
arguments = [re.sub(r'\$\{oc\.env:(\w+)\}', lambda m: os.environ[m[1]], a) for a in sys.argv[1:]]
print(json.dumps([*arguments, sys.stdin.read()]))
"""


def make(
    target: str, *variables: str, venv: str | Path = sys.prefix
) -> subprocess.CompletedProcess[str]:
    """Run `make`, with its virtual environment in `venv`."""
    # The tests may run below `make test`, whose variables are not meant for this one.
    outer = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    for name in ("ARGS", "EXPERIMENT"):
        outer.pop(name, None)
    return subprocess.run(
        ["make", target, f"VENV={venv}", *variables],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**outer, "COLUMNS": "120", "OMP_NUM_THREADS": "1"},
    )


def fake_venv(folder: Path) -> Path:
    """Make a virtual environment whose programs print their arguments as JSON, one list per call.

    Values that Hydra would read from the environment are read. The last argument is the input.
    """
    venv = folder / "venv"
    (venv / "bin").mkdir(parents=True)
    for path in [ROOT / "requirements.txt", *ROOT.glob("requirements-*.txt")]:
        (venv / f".installed{path.stem.removeprefix('requirements')}").touch()
    for name in ("python", "ruff", "mypy", "lint-imports"):
        program = venv / "bin" / name
        program.write_text(f"#!{sys.executable}\n{_PRINTS}")
        program.chmod(0o755)
    return venv


def printed(target: str, *variables: str, venv: Path) -> list[list[str]]:
    """Return the arguments of each program that `make` runs, without the input."""
    ended = make(target, *variables, venv=venv)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line)[:-1] for line in ended.stdout.splitlines() if line.startswith("[")]
