"""Folders of unknown origin are read in a process with limits; each outcome is one sentence."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt.base.errors import DiskError, UserError
from nmt.cli import import_model
from nmt.config import StartEmbedding, Timescales
from nmt.exchange.confined import Process, run_confined
from nmt.exchange.foreign_folder import ForeignFolder
from nmt.exchange.import_request import Limits, Request
from nmt.exchange.marian import SETTINGS, MarianExporter
from tests.support import tiny_trained_model

ROOT = Path(__file__).parents[4]
GIGABYTE = 10**9
DEEP = "[" * 60_000
# 9 ** 29 values when they are compared or shown.
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 30))


class Ended:
    """A process that has sent messages and ended."""

    def __init__(self, status: int, *messages: Any) -> None:
        lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
        self.stdout = io.BytesIO(b"".join(line + b"\n" for line in lines))
        self._status = status

    def wait(self) -> int:
        return self._status

    def kill(self) -> None:
        pass


def outcome(status: int, *messages: Any) -> str:
    @contextmanager
    def started(_: Request) -> Iterator[Process]:
        yield Ended(status, *messages)

    request = Request("/x", "given", "/w", "/o", "", [], Limits(GIGABYTE, 1, 1))
    with pytest.raises(UserError) as caught:
        run_confined(request, started)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_large_model_is_compared_on_a_slow_machine(tmp_path: Path) -> None:
    """With 301 MB, 973 lines took 2,440 s on two busy cores, after 16 s for the reading."""
    with (tmp_path / "model.npz").open("wb") as file:
        file.truncate(301_000_000)
    limits = Limits.of_folder(tmp_path)
    assert limits.reading > 2 * 16
    assert limits.comparing > 4 * 2_440


FILE = {"file": "a.npz"}


@pytest.mark.parametrize(
    ("status", "messages", "expected"),
    [
        (-signal.SIGSEGV, [FILE], r"given/a.npz cannot be read: .* ended with status -11; the fi"),
        (-signal.SIGXCPU, [FILE], "given/a.npz cannot be read: this takes too much time, or more"),
        (-signal.SIGKILL, [], "given: the original model cannot be read: this takes too much"),
        (
            0,
            [FILE, {"is_memory_exhausted": True}],
            "a.npz cannot be read: this needs more than 1",
        ),
        (0, [FILE, {"error": "a.npz: bad"}], "^a.npz: bad$"),
        (0, [FILE, b'{"result": {"config": 3'], "given/a.npz cannot be read: .* status 0"),
        (0, [FILE, b"\xff[" * 2**20], "given/a.npz cannot be read: .* status 0"),
        (-9, [FILE, {"result": {"config": {}, "num_parameters": 1}}], "given/a.npz cannot be read"),
        (1, [FILE, {"title": "comparing", "total": 3}], "given: the original model cannot be read"),
    ],
)
def test_every_end_of_the_process_is_one_sentence(
    status: int, messages: list[Any], expected: str
) -> None:
    assert re.search(expected, outcome(status, *messages))


def test_a_full_disk_is_reported_as_such() -> None:
    @contextmanager
    def started(_: Request) -> Iterator[Process]:
        yield Ended(0, {"disk_error": 28})

    request = Request("/x", "given", "/w", "/out", "", [], Limits(GIGABYTE, 1, 1))
    with pytest.raises(DiskError, match="/out: cannot be written: no space left"):
        run_confined(request, started)


# Real processes.


@pytest.fixture
def folder(tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of Marian whose vocabulary is a table in YAML."""
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {"timescales": Timescales.marian, "start": StartEmbedding.zero}
    model = tiny_trained_model(tokenizer_path, max_source_length=64, **values)
    folder = tmp_path / "marian"
    folder.mkdir()
    MarianExporter().export(model, folder)
    for side in ("source", "target"):
        shutil.copyfile(folder / "vocab.spm", folder / f"{side}.spm")
    pieces = model.source_tokenizer.all_pieces()
    lines = [f"{json.dumps(piece)}: {index}\n" for index, piece in enumerate(pieces)]
    (folder / "v.yml").write_text("".join(lines))
    (folder / "decoder.yml").write_text("models: [model.npz]\nvocabs: [v.yml, v.yml]\n")
    return folder


def imported(folder: Path, limits: Limits | None = None) -> Path:
    workspace, out = folder.parent / "workspace", folder.parent / "out"
    for each in (workspace, out):
        each.mkdir()
    limits = limits or Limits.of_folder(folder)
    texts = ["Ka lo mi.", "Ne pu."]
    run_confined(Request(str(folder), "given", str(workspace), str(out), "en-de", texts, limits))
    return out


def settings(text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with np.load(folder / "model.npz") as file:
            arrays = {**file, SETTINGS: np.frombuffer(text.encode() + b"\0", np.int8)}
        np.savez(folder / "model.npz", **arrays)

    return change


def test_a_folder_is_imported_and_compared(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert (imported(folder) / "weights.safetensors").stat().st_size > 1000
    assert capfd.readouterr().err == "model: en-de\n"


@pytest.mark.parametrize(
    ("change", "file"),
    [
        (lambda folder: (folder / "v.yml").write_text(DEEP), "v.yml"),
        (settings(BOMB + "type: *a29\n"), "model.npz"),
    ],
)
def test_a_crash_and_endless_work_are_one_sentence(
    folder: Path, change: Callable[[Path], Any], file: str
) -> None:
    change(folder)
    with pytest.raises(UserError, match=f"(given|marian)/{file}:? cannot be read: ") as caught:
        imported(folder, Limits(GIGABYTE, 2, 2))
    assert "\n" not in str(caught.value)
    assert not list((folder.parent / "out").iterdir())


def test_an_error_of_the_comparison_names_the_folder(folder: Path) -> None:
    with np.load(folder / "model.npz") as file:
        arrays = dict(file)
    for name in arrays.keys() - {SETTINGS}:
        arrays[name] = np.full_like(arrays[name], 1e30)
    np.savez(folder / "model.npz", **arrays)
    with pytest.raises(UserError, match=r"^given: the scores of the model are not finite"):
        imported(folder)


def test_links_and_pipes_are_rejected(tmp_path: Path) -> None:
    """Other programs would follow them."""
    for number, create in enumerate((lambda path: path.symlink_to("/etc/passwd"), os.mkfifo)):
        folder = tmp_path / str(number)
        folder.mkdir()
        ForeignFolder(folder).check_contents()
        create(folder / "tokenizer.json")
        with pytest.raises(UserError, match=r"/tokenizer\.json: leads out of its folder, or is no"):
            ForeignFolder(folder).check_contents()


def test_a_file_that_needs_much_memory_is_named(folder: Path) -> None:
    os.truncate(folder / "source.spm", 3 * GIGABYTE)  # sparse
    limits = Limits(GIGABYTE, 20, 2)
    with pytest.raises(UserError, match=r"given/source\.spm cannot .* more than 1\.0 GB of memory"):
        imported(folder, limits)


def test_the_process_has_no_network() -> None:
    program = (
        "import socket; from nmt.exchange import confined\n"
        "from nmt.exchange.import_request import Limits\n"
        "confined._limit(Limits(10**9, 9, 9))\n"
        "try: socket.create_connection(('127.0.0.1', 9))\n"
        "except PermissionError as error: print(error)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert "is not allowed while a folder is imported" in found.stdout


def test_ctrl_c_ends_both_processes(folder: Path) -> None:
    """While the child waits, the parent gets the signal."""
    (folder.parent / "check.txt").write_text("Ka lo mi.\n" * 1000)
    arguments = ["folder=marian", "direction=en-de", "check=check.txt", "out=new"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", "import", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stderr is not None
        assert process.stderr.readline() == "model: en-de\n"
        [child] = children(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "error: interrupted\n"
        assert process.wait() == 130
    for _ in range(50):
        if not Path("/proc", str(child)).exists():
            break
        time.sleep(0.1)
    assert not Path("/proc", str(child)).exists()
    assert sorted(os.listdir()) == ["check.txt", "marian"]


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_the_process_writes_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(request: Request) -> Any:
        found = run_confined(replace(request, texts=["Ka."]))
        (Path(request.out) / "more").touch()
        return found

    monkeypatch.setattr(import_model, "run_confined", run)
    monkeypatch.setattr("sys.argv", ["import", "folder=marian", "direction=en-de", "out=new"])
    with pytest.raises(UserError, match="the import wrote other files than expected"):
        import_model.main()
    assert os.listdir() == ["marian"]


@pytest.mark.slow
def test_changed_folders_end_in_a_model_or_one_sentence() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.fuzz_imports", "count=60", "seed=3"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert "60 folders" in found.stdout
