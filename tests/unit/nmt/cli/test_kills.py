"""Commands killed by SIGKILL at any of their renames: the same command ends as if it was not."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nmt.base import resumable
from nmt.base.files import write_lines
from nmt.evaluation import evaluate
from tests.support import tree

Run = Callable[..., None]


def killed(run: Run, arguments: list[str], patch: Callable[[], None]) -> bool:
    """Run a command in a forked process; return whether it was killed."""
    process = os.fork()
    if process == 0:
        patch()
        try:
            run(*arguments)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL


def at_call(number: int, module: object, name: str) -> Callable[[], None]:
    """Kill this process at the call of a function, counted from 0."""

    def patch() -> None:
        function, calls = getattr(module, name), []

        def counted(*arguments: object) -> object:
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls.append(arguments)
            return function(*arguments)

        setattr(module, name, counted)

    return patch


@pytest.fixture
def _scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only files are of interest here, and scores take seconds."""
    score, scored = evaluate.evaluate, []

    def evaluate_once(*arguments: Any) -> evaluate.Evaluation:
        scored.extend([] if scored else [score(*arguments)])
        return scored[0]

    monkeypatch.setattr(evaluate, "evaluate", evaluate_once)


@pytest.mark.slow
@pytest.mark.usefixtures("_scored_once")
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize(("command", "renames"), [("evaluate", 4), ("export", 1)])
def test_a_killed_command_is_completed_by_the_next(
    command: str, renames: int, exists: bool, run: Run, outputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "work" / "out"
    arguments = [command, f"model={outputs}/runs/new", f"out={out}"]
    arguments += [f"baseline={outputs}/runs/new"] if command == "evaluate" else []
    run(*arguments)
    expected = tree(out)
    write_lines(tmp_path / "work" / "mine", ["mine"])
    shutil.copytree(tmp_path / "work", tmp_path / "before")
    kills = 0
    # An export that replaces another one also renames the old folder.
    while True:
        shutil.rmtree(tmp_path / "work")
        shutil.copytree(tmp_path / "before", tmp_path / "work")
        if not exists:
            shutil.rmtree(out)
        if not killed(run, arguments, at_call(kills, os, "replace")):
            break
        kills += 1
        run(*arguments)
        assert tree(out) == expected
        assert tree(tmp_path / "work").keys() == {"mine", *(f"out/{name}" for name in expected)}
        assert list((tmp_path / "work").rglob(".*")) == []
    assert kills >= renames + (exists and command == "export")


@pytest.mark.parametrize("name", ["replace", "remove"])
def test_a_translation_killed_at_its_end_is_kept(name: str, run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.en", ["Kalo mine.", "Zuve ra!"])
    arguments = ["translate", "file=a.en", "out=a.de"]
    run(*arguments)
    expected = Path("a.de").read_bytes()
    Path("a.de").unlink()
    module = resumable if name == "remove" else os
    kills = 0
    while killed(run, arguments, at_call(kills, module, name)):
        kills += 1
        if Path("a.de").exists():
            assert Path("a.de").read_bytes() == expected
        run(*arguments)
        assert Path("a.de").read_bytes() == expected
        assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de"}
        Path("a.de").unlink()
    assert kills >= 1
