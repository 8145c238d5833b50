import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from nmt.base.errors import UserError
from nmt.config import Config, RunConfig, TrackingBackend, TrackingConfig
from nmt.training.run_log import RunLog
from nmt.training.trackers import FileTracker, WandbTracker
from nmt.training.training_state import TrainingState
from nmt.training.validation import ValidationResult

ROOT = Path(__file__).parents[4]


def updates(path: Path) -> list[int]:
    return [json.loads(line)["update"] for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_resumed_run_drops_what_it_repeats_and_an_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tracker = FileTracker(path, 0)
    for update in (1, 2, 3):
        tracker.log(update, {"train/loss": update / 2})
        last = path.read_text(encoding="utf-8").splitlines()[-1]
        assert json.loads(last) == {"update": update, "train/loss": update / 2}
    with path.open("a", encoding="utf-8") as out:
        out.write('{"update": 2, "tra')
    resumed = FileTracker(path, 2)
    assert updates(path) == [1, 2]
    resumed.log(3, {})
    resumed.flush()
    assert updates(path) == [1, 2, 3]


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Replace the package, so that nothing leaves this machine."""
    module = Mock()
    run = module.init.return_value
    run.settings.sync_dir = "wandb/offline-run-1"

    def init(mode: str, **_: object) -> Mock:
        if mode == "online" and not os.environ.get("WANDB_API_KEY"):
            raise RuntimeError("No API key configured")
        return run

    module.init.side_effect = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    return module


def on_wandb(folder: Path) -> Config:
    tracking = TrackingConfig(backend=TrackingBackend.wandb, project="mine")
    return replace(Config(), tracking=tracking, run=RunConfig(folder=str(folder)))


def test_wandb_gets_the_records_of_a_run(tmp_path: Path, wandb: Mock) -> None:
    run_log = RunLog(on_wandb(tmp_path), "id7", TrainingState())
    run_log.validation(5, ValidationResult(loss=0.0, bleu=12.5), is_best=True)
    run_log.close()
    record = {"update": 5, "valid/loss": 0.0, "valid/perplexity": 1.0, "valid/bleu": 12.5}
    assert wandb.init.return_value.log.mock_calls == [call(record)]
    assert json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8")) == record
    assert wandb.init.return_value.finish.called
    asked = wandb.init.call_args.kwargs
    assert (asked["project"], asked["id"], asked["resume"]) == ("mine", "id7", "allow")


@pytest.mark.parametrize(
    ("key", "asked", "mode"),
    [
        ("", "", "offline"),
        ("k", "", "online"),
        ("k", "offline", "offline"),
        ("k", "disabled", "disabled"),
    ],
)
def test_the_environment_chooses_the_mode_of_wandb(
    key: str,
    asked: str,
    mode: str,
    tmp_path: Path,
    wandb: Mock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    monkeypatch.setenv("WANDB_MODE", asked)
    with caplog.at_level("INFO", logger="nmt"):
        WandbTracker(on_wandb(tmp_path), "id").close()
    assert wandb.init.call_args.kwargs["mode"] == mode
    assert ("wandb sync wandb/offline-run-1" in caplog.text) == (mode == "offline")
    assert ("recorded offline: No API key" in caplog.text) == (not key)


def test_a_failure_of_wandb_is_reported_once(
    tmp_path: Path, wandb: Mock, caplog: pytest.LogCaptureFixture
) -> None:
    wandb.init.return_value.log.side_effect = ConnectionError("no route to host")
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


PROGRAM = """
import sys, time
from pathlib import Path
import wandb
from tests.unit.nmt.training.test_trackers import on_wandb
from nmt.training.trackers import WandbTracker
start = time.monotonic()
tracker = WandbTracker(on_wandb(Path(sys.argv[1])), "id")
tracker.log(1, {"train/loss": 2.0})
tracker.close()
print(time.monotonic() - start)
"""


@pytest.mark.slow
def test_a_server_that_does_not_answer_costs_ten_seconds(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("metrics are recorded offline") == 1
    assert float(ended.stdout) < 20  # also on a busy machine
    assert list((tmp_path / "wandb").glob("offline-run-*"))
