import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.config import Config, RunConfig, TrackingBackend, TrackingConfig
from nmt.training.trackers import FileTracker, WandbTracker, open_trackers

ROOT = Path(__file__).parents[4]


def records(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "metrics.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def log(folder: Path, last_update: int, *updates: int) -> None:
    tracker = FileTracker(folder / "metrics.jsonl", last_update)
    for update in updates:
        tracker.log(update, {"train/loss": update / 2})
        assert records(folder)[-1] == {"update": update, "train/loss": update / 2}
    tracker.close()


def test_a_resumed_run_drops_the_records_that_it_repeats(tmp_path: Path) -> None:
    log(tmp_path, 0, 1, 2, 3, 4)
    log(tmp_path, 2, 3)
    assert [record["update"] for record in records(tmp_path)] == [1, 2, 3]


def test_the_incomplete_line_of_a_killed_run_is_dropped(tmp_path: Path) -> None:
    log(tmp_path, 0, 1, 2)
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as out:
        out.write('{"update": 3, "tra')
    log(tmp_path, 2, 3)
    assert [record["update"] for record in records(tmp_path)] == [1, 2, 3]


class _Run:
    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.finished = False
        self.settings = SimpleNamespace(sync_dir="wandb/offline-run-1")

    def define_metric(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log(self, values: dict[str, Any]) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the package, so that nothing leaves this machine."""
    module: Any = ModuleType("wandb")
    module.run = _Run()
    module.Settings = lambda **kwargs: kwargs
    module.teardown = lambda: None

    def init(**kwargs: Any) -> _Run:
        module.asked = kwargs
        return module.run

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    return module


def on_wandb(folder: Path) -> Config:
    tracking = TrackingConfig(backend=TrackingBackend.wandb, project="mine")
    return replace(Config(), tracking=tracking, run=RunConfig(folder=str(folder)))


def test_wandb_gets_the_records_of_the_file(tmp_path: Path, wandb: Any) -> None:
    trackers = open_trackers(on_wandb(tmp_path), "id7", 0)
    for tracker in trackers:
        tracker.log(5, {"valid/bleu": 12.5})
        tracker.flush()
        tracker.close()
    assert wandb.run.logged == records(tmp_path) == [{"update": 5, "valid/bleu": 12.5}]
    assert wandb.run.finished
    asked = wandb.asked
    assert (asked["project"], asked["id"], asked["resume"]) == ("mine", "id7", "allow")


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": "k"}, "online"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, "disabled"),
    ],
)
def test_the_environment_chooses_the_mode_of_wandb(
    environment: dict[str, str],
    mode: str,
    tmp_path: Path,
    wandb: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with caplog.at_level("INFO", logger="nmt"):
        WandbTracker(on_wandb(tmp_path), "id").close()
    assert wandb.asked["mode"] == mode
    assert ("wandb sync wandb/offline-run-1" in caplog.text) == (mode == "offline")


def test_a_failure_of_wandb_is_reported_once(
    tmp_path: Path, wandb: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(values: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(wandb.run, "log", fail)
    tracker = WandbTracker(on_wandb(tmp_path), "id")
    for update in (1, 2):
        tracker.log(update, {})
    tracker.close()
    assert caplog.text.count("no route to host") == 1


def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        WandbTracker(on_wandb(tmp_path), "id")


@pytest.fixture
def silent_server() -> Iterator[int]:
    """The port of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


PROGRAM = """
import sys
from pathlib import Path
from tests.unit.nmt.training.test_trackers import on_wandb
from nmt.training.trackers import WandbTracker
tracker = WandbTracker(on_wandb(Path(sys.argv[1])), "id")
tracker.log(1, {"train/loss": 2.0})
tracker.close()
"""


@pytest.mark.slow
def test_a_server_that_does_not_answer_costs_ten_seconds(
    tmp_path: Path, silent_server: int
) -> None:
    pytest.importorskip("wandb")
    settings = {"WANDB_BASE_URL": f"http://127.0.0.1:{silent_server}", "WANDB_API_KEY": "0" * 40}
    start = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("metrics are recorded offline") == 1
    assert time.monotonic() - start < 25  # with importing torch on a busy machine
    assert list((tmp_path / "wandb").glob("offline-run-*"))
