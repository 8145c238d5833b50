import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nmt.config import Config, TrackingBackend, TrackingConfig
from nmt.errors import UserError
from nmt.training.tracking import METRICS_FILE, Tracker


def records(folder: Path) -> list[dict[str, Any]]:
    text = (folder / METRICS_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def log(folder: Path, last_update: int, *updates: int) -> None:
    tracker = Tracker(Config(), folder, "id", last_update)
    for update in updates:
        tracker.log(update, {"train/loss": update / 2})
    tracker.close()


def test_one_object_a_line(tmp_path: Path) -> None:
    log(tmp_path, 0, 1, 2)
    assert records(tmp_path) == [
        {"update": 1, "train/loss": 0.5},
        {"update": 2, "train/loss": 1.0},
    ]


def test_a_record_is_on_disk_before_the_next(tmp_path: Path) -> None:
    tracker = Tracker(Config(), tmp_path, "id", 0)
    tracker.log(1, {"train/loss": 2.0})
    assert len(records(tmp_path)) == 1
    tracker.close()


def test_a_continued_run_drops_what_it_will_write_again(tmp_path: Path) -> None:
    log(tmp_path, 0, 1, 2, 3, 4)
    log(tmp_path, 2, 3)
    assert [record["update"] for record in records(tmp_path)] == [1, 2, 3]


def test_the_half_line_of_a_killed_run_is_dropped(tmp_path: Path) -> None:
    log(tmp_path, 0, 1, 2)
    with (tmp_path / METRICS_FILE).open("a", encoding="utf-8") as out:
        out.write('{"update": 3, "tra')
    log(tmp_path, 2, 3)
    assert [record["update"] for record in records(tmp_path)] == [1, 2, 3]


class _Run:
    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.finished = False

    def define_metric(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log(self, values: dict[str, Any]) -> None:
        self.logged.append(values)

    def finish(self) -> None:
        self.finished = True


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for the package, so that nothing leaves this machine."""
    module: Any = ModuleType("wandb")
    module.run = _Run()
    module.api = SimpleNamespace(api_key=None)
    module.Settings = lambda **kwargs: kwargs

    def init(**kwargs: Any) -> _Run:
        module.asked = kwargs
        return module.run

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    return module


def on_wandb() -> Config:
    return replace(Config(), tracking=TrackingConfig(TrackingBackend.wandb, project="mine"))


def test_wandb_gets_the_same_records(tmp_path: Path, wandb: Any) -> None:
    tracker = Tracker(on_wandb(), tmp_path, "id7", 0)
    tracker.log(5, {"valid/bleu": 12.5})
    tracker.close()
    assert wandb.run.logged == records(tmp_path) == [{"update": 5, "valid/bleu": 12.5}]
    assert wandb.run.finished
    assert (wandb.asked["project"], wandb.asked["id"]) == ("mine", "id7")
    assert wandb.asked["resume"] == "allow"


def test_without_a_login_wandb_stays_offline(
    tmp_path: Path, wandb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tracker(on_wandb(), tmp_path, "id", 0).close()
    assert wandb.asked["mode"] == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "k")
    Tracker(on_wandb(), tmp_path, "id", 0).close()
    assert wandb.asked["mode"] == "online"


def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        Tracker(on_wandb(), tmp_path, "id", 0)
