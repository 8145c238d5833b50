import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import pytest

from nmt.base import system
from nmt.base.errors import UserError
from nmt.base.signals import Interruption
from nmt.cli.compose import compose_config
from nmt.config import TrackingConfig, WandbConfig
from nmt.runs import experiment
from nmt.tracking import trackers
from nmt.tracking.file_tracker import FileTracker
from nmt.tracking.tracker import Tracker, Validation
from nmt.tracking.trackers import OptionalTrackers, check_trackers, chosen
from nmt.training.trainer import Trainer
from tests.runs import run
from tests.support import tiny_config


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


def test_a_tracker_that_fails_is_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing, good = Mock(spec=Tracker), Mock(spec=Tracker)
    failing.log.side_effect = ConnectionError("no route to host")
    openers = {
        "absent": Mock(side_effect=OSError("no such server")),
        "failing": lambda: failing,
        "good": lambda: good,
    }
    both = OptionalTrackers(openers, Mock())
    for update in (1, 2):
        both.log(update, {"train/loss": 1.0})
    both.flush()
    both.close()
    assert caplog.messages == [
        "absent: nothing is recorded: no such server",
        "failing: nothing more is recorded: no route to host",
    ]
    assert failing.log.call_count == 1
    assert not failing.close.called
    assert good.log.call_count == 2
    good.close.assert_called_once_with(False)


def test_a_tracker_that_does_not_return_is_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "_MAX_SECONDS", 0.2)
    hanging, is_over = Mock(spec=Tracker), Event()
    hanging.log.side_effect = lambda *_: is_over.wait(30)
    both = OptionalTrackers({"hanging": lambda: hanging}, Mock())
    for update in (1, 2):
        both.log(update, {})
    both.close()
    is_over.set()
    assert caplog.messages == ["hanging: nothing more is recorded: no answer within 0.2 seconds"]
    hanging.abandon.assert_called_once_with(True)


def test_a_selection_that_fails_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    tracker = Mock()
    with caplog.at_level("WARNING", "nmt"):
        optional = OptionalTrackers({"good": lambda: tracker}, Mock(side_effect=OSError("no")))
        optional.log(1, {"loss": 1.0})
    tracker.log.assert_called_once_with(1, {"loss": 1.0})
    assert caplog.messages == ["no sentences and pictures are tracked: no"]


def test_sentences_that_cannot_be_selected_cost_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    samples, tracker = Mock(), Mock(spec=Tracker)
    samples.record.side_effect = MemoryError("no memory for weights")
    optional = OptionalTrackers({"good": lambda: tracker}, lambda: samples)
    validation = Validation({"valid/bleu": 1.0}, 10, ("a", "b"))
    for update in (5, 10):
        optional.validation(update, validation)
    assert caplog.messages == ["no more sentences and pictures are tracked: no memory for weights"]
    assert [each.args for each in tracker.validation.mock_calls] == [
        (5, validation),
        (10, validation),
    ]


@pytest.mark.parametrize("error", [None, Interruption(), UserError("diverged")])
def test_trackers_are_closed_whatever_ends_the_run(
    error: BaseException | None,
    tmp_path: Path,
    digit_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Mock(spec=Tracker)
    monkeypatch.setattr(experiment, "open_trackers", lambda *arguments: opened)
    monkeypatch.setattr(Trainer, "run", Mock(side_effect=error))
    monkeypatch.setattr(experiment, "finish", Mock(return_value=[]))
    with pytest.raises(type(error)) if error else nullcontext():
        run(tiny_config(tmp_path), digit_corpus)
    arguments = {"has_failed": True} if error else {}
    opened.close.assert_called_once_with(**arguments)


def test_a_missing_package_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "find_spec", lambda name: None)
    check_trackers(TrackingConfig())
    with pytest.raises(UserError, match=r"tracking=wandb needs .*: make install-tracking, or pip"):
        check_trackers(TrackingConfig(wandb=WandbConfig(enabled=True)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            TrackingConfig(wandb=WandbConfig(enabled=True, project="a/b: c")),
            "project=a/b: c contains / :, which wandb",
        ),
        (
            TrackingConfig(wandb=WandbConfig(enabled=True, project="x" * 129)),
            "project has 129 characters",
        ),
    ],
)
def test_a_project_that_a_tracker_cannot_use_is_refused(
    config: TrackingConfig, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_trackers(config)
    check_trackers(replace(config, wandb=WandbConfig()))


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("files", []),
        ("wandb", ["wandb"]),
        ("[tensorboard,wandb]", ["wandb", "tensorboard"]),
    ],
)
def test_presets_choose_one_tracker_or_several(value: str, names: list[str]) -> None:
    assert chosen(compose_config([f"tracking={value}"]).tracking) == names


def test_keys_of_wandb_stand_beside_its_preset() -> None:
    wandb = compose_config(["tracking.wandb.tags=[a,b]", "tracking=wandb"]).tracking.wandb
    assert wandb == WandbConfig(enabled=True, tags=["a", "b"])


def test_an_unknown_tracker_in_a_list_is_refused() -> None:
    with pytest.raises(UserError, match=r"tracking=wandbb is not a preset; did you mean wandb\?"):
        compose_config(["tracking=[files,wandbb]"])
