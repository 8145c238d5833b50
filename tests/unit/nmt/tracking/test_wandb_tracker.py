import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from unittest.mock import Mock

import pytest

from nmt.config import Config, RunConfig, TrackingConfig, WandbConfig
from nmt.tracking.tracker import CompletedRun, Validation
from nmt.tracking.wandb_tracker import WandbTracker
from tests import wandb_file

ROOT = Path(__file__).parents[4]


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
    tracking = TrackingConfig(wandb=WandbConfig(enabled=True, project="mine"))
    return replace(Config(), tracking=tracking, run=RunConfig(folder=str(folder)))


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
    assert ("wandb sync wandb\n" in caplog.text) == (mode == "offline")
    assert ("recorded offline: No API key" in caplog.text) == (not key)


def completed_run(folder: Path) -> CompletedRun:
    (folder / "model").mkdir()
    (folder / "model" / "config.yaml").touch()
    result = {"updates": 5, "valid": {"loss": 1.0, "bleu": 2.0}, "test_sets": {}}
    return CompletedRun(folder, folder / "digits-0123", result)


def test_a_disabled_run_takes_everything_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    tracker = WandbTracker(on_wandb(tmp_path), "id")
    tracker.validation(5, Validation({"valid/bleu": 2.0}, 100))
    tracker.alert(5, "title", "text")
    tracker.completed(completed_run(tmp_path))
    tracker.close()


def test_an_upload_that_takes_too_long_is_reported_and_can_be_made_later(
    tmp_path: Path,
    wandb: Mock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "k")
    wandb.Artifact.return_value.wait.side_effect = TimeoutError("upload wait timed out")
    config = on_wandb(tmp_path)
    tracker = WandbTracker(config, "id")
    with caplog.at_level("INFO", logger="nmt"):
        tracker.completed(completed_run(tmp_path))
    assert "the model are not uploaded: upload wait timed out" in caplog.text
    assert "wandb sync wandb/offline-run-1" in caplog.text
    wandb.Artifact.return_value.wait.assert_called_once_with(config.tracking.wandb.upload_seconds)


PROGRAM = """
import sys
from pathlib import Path
from tests.unit.nmt.tracking.test_wandb_tracker import on_wandb
from nmt.tracking.wandb_tracker import WandbTracker
tracker = WandbTracker(on_wandb(Path(sys.argv[1])), "id")
tracker.log(1, {"train/loss": 2.0})
tracker.close()
"""


DROPPED = """
import sys
from pathlib import Path
from tests.unit.nmt.tracking.test_wandb_tracker import on_wandb
from nmt.tracking.wandb_tracker import WandbTracker
opened = []
for name in ("dropped", "next"):  # the first one is not closed
    folder = Path(sys.argv[1], name)
    folder.mkdir()
    opened.append(WandbTracker(on_wandb(folder), name))
print(*(tracker._run.id for tracker in opened))
"""


# In a process of its own: wandb's threads would log errors during later tests.
@pytest.mark.slow
def test_a_run_after_a_dropped_tracker_has_its_own_records(tmp_path: Path) -> None:
    ended = in_a_process(DROPPED, tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "dropped next\n"), ended.stderr


STRUCK = """
import os, sys
from pathlib import Path
import wandb
from nmt.tracking import trackers
from nmt.tracking.wandb_tracker import WandbTracker
from tests.unit.nmt.tracking.test_wandb_tracker import on_wandb
trackers._MAX_SECONDS = 10.0
opener = lambda: WandbTracker(on_wandb(Path(sys.argv[1])), "id")
both = trackers.OptionalTrackers({"wandb": opener}, lambda: None)
os.kill(wandb.setup()._connection._proc._process.pid, int(sys.argv[2]))
for update in range(2_000):  # more than the pipe to the service holds
    both.log(update, {f"train/{number}": 1.0 for number in range(100)})
both.close()
import sacremoses  # wandb must not send a message about it
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_service_that_has_ended_or_does_not_answer_costs_one_warning(
    number: int, tmp_path: Path
) -> None:
    ended = in_a_process(STRUCK, tmp_path, str(number))
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("wandb: nothing more is recorded: ") == 1, ended.stderr
    assert "Traceback" not in ended.stderr


KILLED = """
import os, signal, sys
from pathlib import Path
import wandb
from nmt.tracking.wandb_tracker import WandbTracker
from tests.unit.nmt.tracking.test_wandb_tracker import on_wandb
folder, is_killed = Path(sys.argv[1]), sys.argv[2] == "killed"
tracker = WandbTracker(on_wandb(folder), "id", 0 if is_killed else 10)
for update in (5, 10) if is_killed else (15, 20):
    tracker.log(update, {"train/loss": 1.0 / update})
if is_killed:
    os.kill(wandb.setup()._connection._proc._process.pid, signal.SIGKILL)
    os._exit(0)
tracker.close()
"""


@pytest.mark.slow
def test_what_a_kill_has_lost_is_recorded_again(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(
        '{"update": 5, "train/loss": 0.2}\n{"update": 10, "train/loss": 0.1}\n{"upda'
    )
    for state in ("killed", "continued"):
        assert in_a_process(KILLED, tmp_path, state).returncode == 0
    folder = tmp_path / "wandb"
    [continued] = (folder / "latest-run").glob("*.wandb")
    assert [row["update"] for row in wandb_file.history(continued)] == [5, 10, 15, 20]
    assert (folder / "last_update").read_text() == "20"


def in_a_process(
    program: str, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    offline = {"WANDB_MODE": "offline", "WANDB_DATA_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program, str(folder), *arguments],
        cwd=ROOT,
        env=os.environ | offline | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def track(folder: Path, port: int) -> None:
    """Run the program with a server at `port`: metrics are recorded offline, with one warning."""
    url = f"http://127.0.0.1:{port}"
    keys = {"WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40, "WANDB_MODE": "online"}
    ended = in_a_process(PROGRAM, folder, **keys)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("metrics are recorded offline") == 1
    assert list((folder / "wandb").glob("offline-run-*"))


@pytest.mark.slow
def test_a_server_that_does_not_answer_costs_one_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts connections
        track(tmp_path, server.getsockname()[1])


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses every key."""

    requests: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Answer a request."""
        self.requests.append(self.path)
        self.rfile.read(int(self.headers["content-length"] or 0))
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - name set by http.server

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@pytest.mark.slow
def test_a_refused_key_costs_one_warning(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        track(tmp_path, server.server_port)
        server.shutdown()
    assert Refusing.requests
