import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.signals import Interruption
from nmt.cli.common import parse_folders, run_command

ROOT = Path(__file__).parents[4]
LONG = [f"outputs/runs/{'x' * 40}_{number}" for number in range(200)]


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        ("", []),
        ("one two", ["one", "two"]),
        ("'one model' two", ["one model", "two"]),
        ("it's one", ["it's one"]),  # exists
        (" ".join(LONG), LONG),  # longer than any path
    ],
)
def test_folders_are_separated_by_spaces_and_quoted_as_in_a_shell(
    names: str, folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("it's one").mkdir()
    assert parse_folders(names) == [Path(folder) for folder in folders]
    with pytest.raises(UserError, match="cannot be split into folders"):
        parse_folders("it's one two")


def raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


def signalled(number: signal.Signals) -> Callable[[], None]:
    """A command in which a library replaces the exception of a signal by its own."""

    def command() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(1)
        except BaseException as error:
            raise ValueError("could not determine the shape") from error

    return command


def unwritable(number: int) -> OSError:
    return OSError(number, os.strerror(number), "outputs/theirs.yaml")


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (raising(UserError("fix it")), 2, "fix it\n"),
        (raising(unwritable(errno.ENOSPC)), 2, "outputs/theirs.yaml: cannot be written: no space"),
        (raising(unwritable(errno.EACCES)), 2, "outputs/theirs.yaml: cannot be written: "),
        (
            raising(MemoryError()),
            2,
            "out of memory: MemoryError; end other programs or, in translation, lower decoding.",
        ),
        (
            raising(RuntimeError("CUDA out of memory.\nTried")),
            2,
            "out of memory: CUDA out of memory.",
        ),
        (raising(Interruption(15)), 143, "interrupted\n"),
        (signalled(signal.SIGTERM), 143, "interrupted\n"),
        (signalled(signal.SIGINT), 130, "interrupted\n"),
    ],
)
def test_errors_are_reported_in_one_line_and_by_the_exit_status(
    command: Callable[[], None], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == status
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {message}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_a_folder_that_cannot_be_read_is_not_reported_as_one_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    error = OSError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))
    with pytest.raises(SystemExit):
        run_command(raising(error))
    assert capsys.readouterr().err == f"error: {tmp_path}: cannot be read: permission denied\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("size", [1500, 20_000])
def test_text_that_stdout_does_not_take_is_an_error(
    unbuffered: str, size: int, tmp_path: Path
) -> None:
    """Only a part of the text is written; the system reports no error before the next write."""
    code = "import resource; from nmt.cli.common import run_command;"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
    code += f"run_command(lambda: print('x' * {size}))"
    with (tmp_path / "out").open("w") as out:
        ended = subprocess.run(
            [sys.executable, "-c", code],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert ended.stderr.startswith("error: /dev/stdout: cannot be written: file too large")
    assert ended.returncode == 2


def test_a_mistake_in_the_program_has_a_traceback() -> None:
    with pytest.raises(FileNotFoundError):
        run_command(lambda: print(Path("/no/such/file").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "argument", "cause"),
    [
        ("train", "modle=small", "modle"),
        ("train", "model.width=510", "model.width"),
        ("train", "--multirun cluster=slurm", "ended early: RuntimeError: Could not detect"),
        ("evaluate", "mode=/nowhere", "mode"),
    ],
)
def test_user_errors_of_modules_exit_with_2_and_one_sentence(
    module: str, argument: str, cause: str, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nmt", module, *argument.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": str(tmp_path)},  # without SLURM
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert cause in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert ended.stdout == ""
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert files == (["multirun.yaml"] if "--multirun" in argument else [])
    assert "--multirun" in argument or list(tmp_path.iterdir()) == []


def test_ctrl_c_from_the_first_import_on_is_one_line() -> None:
    code = """
import os, runpy, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name not in ("nmt", "nmt.__main__"):
            os.kill(os.getpid(), 2)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["nmt", "table3", "--help"]
runpy.run_module("nmt", run_name="__main__")
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"error: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "started",
    [
        "import nmt.__main__",
        "from nmt.training import distributed; distributed._begin(None, os.getppid(), print, 'x')",
    ],
)
def test_the_shutdown_of_a_process_collects_no_garbage(started: str) -> None:
    code = "import atexit, gc, os; atexit.register(lambda: print(gc.get_freeze_count() > 10_000));"
    ended = subprocess.run(
        [sys.executable, "-c", code + started], cwd=ROOT, capture_output=True, check=True
    )
    assert ended.stdout.endswith(b"True\n")
