"""Searches with Optuna: values of trials, their ends, and pruning."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from nmt.base.errors import BusyError, UserError
from nmt.base.files import read_json, write_json, write_lines
from nmt.config import Config
from nmt.runs import experiment, search, train
from nmt.runs.search import parse_space, pruning, recorded, trial_values
from tests.support import ALONE, tiny_config

SPACE = (
    "schedule.peak_learning_rate=tag(log,interval(1e-4,1e-1)) model.dropout=interval(0,0.3)"
    " schedule.warmup_updates=range(50,401,50) model.width=choice(32,64)"
)
STATES = optuna.trial.TrialState


def trials(sweep: Path) -> list[optuna.trial.FrozenTrial]:
    url = f"sqlite:///{sweep / 'study.sqlite3'}"
    return optuna.load_study(study_name="nmt", storage=url).trials


def completed(run: Path, loss: float) -> None:
    """Complete a trial, as training does, with weights that have not the lowest loss."""
    trial_values(SPACE, run)
    with recorded(run):
        records = [{"update": 1, "valid/loss": loss}, {"update": 2, "valid/loss": loss + 1}]
        write_lines(run / "metrics.jsonl", map(json.dumps, records))
        result = {"valid": {"loss": loss + 1, "bleu": 1.0}, "test_sets": {}, "chosen": ""}
        write_json(run / "result.json", {**result, "updates": 1, "training_seconds": 1.0})


def test_trials_have_different_values_within_the_space(tmp_path: Path) -> None:
    found = [trial_values(SPACE, tmp_path / f"search.trial={i}") for i in range(8)]
    for values in found:
        assert list(values) == list(parse_space(SPACE))
        assert 1e-4 <= values["schedule.peak_learning_rate"] <= 1e-1
        assert 0 <= values["model.dropout"] <= 0.3
        assert values["schedule.warmup_updates"] in range(50, 401, 50)
        assert values["model.width"] in (32, 64)
    rates = {values["schedule.peak_learning_rate"] for values in found}
    assert len(rates) == 8
    assert min(rates) < 1e-2 / 2  # logarithmic: most values would be larger otherwise


def test_an_interrupted_trial_keeps_its_values(tmp_path: Path) -> None:
    run = tmp_path / "search.trial=1"
    first = trial_values(SPACE, run)
    for error in (BusyError(""), SystemExit(130)):  # another process trains it; a second Ctrl-C
        with pytest.raises(type(error)), recorded(run):
            raise error
    assert trial_values(SPACE, run) == first
    assert [trial.state for trial in trials(tmp_path)] == [STATES.RUNNING]


def test_a_failed_trial_is_tried_again_with_its_values(tmp_path: Path) -> None:
    config = search_config(tmp_path, 1, validate_every=1)
    run, decide = config.run_folder, pruning(config)
    assert decide is not None
    first = trial_values(SPACE, run)
    decide(1, 5.0)
    write_json(run / "config.yaml", {})
    with pytest.raises(UserError), recorded(run):
        raise UserError("")
    assert trial_values("model.dropout=interval(0.1,0.2)", run) == first
    decide(2, 4.0)
    [trial] = trials(run.parent)
    assert trial.state is STATES.RUNNING
    assert trial.intermediate_values == {1: 5.0, 2: 4.0}


def test_a_trial_that_failed_before_it_began_gets_new_values(tmp_path: Path) -> None:
    run = tmp_path / "search.trial=1"
    first = trial_values(SPACE, run)
    completed(tmp_path / "search.trial=2", 1.0)
    with pytest.raises(UserError), recorded(run):
        raise UserError("")
    trial_values(SPACE, run)
    failed, _, again = trials(tmp_path)
    assert (failed.state, again.state) == (STATES.FAIL, STATES.RUNNING)
    assert again.params != failed.params
    assert first


def test_the_validation_loss_of_a_trial_is_recorded_once(tmp_path: Path) -> None:
    completed(tmp_path / "search.trial=1", 2.5)
    completed(tmp_path / "search.trial=1", 3.5)
    assert [(trial.state, trial.value) for trial in trials(tmp_path)] == [(STATES.COMPLETE, 2.5)]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("", "search.trial has no effect without"),
        ("model.widht=choice(1,2)", "model.widht is not a key"),
        ("model.width=3", "model.width=3 is not a range"),
        ("model.width=choice()", r"search.space=model.width=choice\(\) cannot be read: empty"),
        ("model.dropout=interval(0.3,0.1)", "search.space: model.dropout: .*low.*; correct the"),
        ("model.dropout=tag(log,interval(0,1))", "search.space: model.dropout: .*; correct the"),
        ("model.width=range(5,1)", "search.space: model.width: .*; correct the range"),
        ("model.width=range(1,5,0)", "search.space: model.width: .*; correct the range"),
    ],
)
def test_an_invalid_space_is_reported(space: str, message: str, tmp_path: Path) -> None:
    run = tmp_path / "search.trial=1"
    with pytest.raises(UserError, match=message):
        trial_values(space, run)
    trial_values(SPACE, run)
    assert len(trials(tmp_path)) == 1  # no trial has the invalid values


@pytest.mark.parametrize("space", ["model.width=choice(32,96)", "model.width=range(32,97)"])
@pytest.mark.parametrize("trial", [1, 2])
def test_a_range_of_another_kind_is_refused(space: str, trial: int, tmp_path: Path) -> None:
    trial_values(SPACE, tmp_path / "search.trial=1")
    with pytest.raises(UserError, match=r"model.width: .*[^.]; .* choose another run.name"):
        trial_values(space, tmp_path / f"search.trial={trial}")


def test_a_locked_study_ends_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(search, "_SECONDS_TO_WAIT", 0.01)
    config = search_config(tmp_path, 1)
    run, decide = config.run_folder, pruning(config)
    assert decide is not None
    trial_values(SPACE, run)
    path = run.parent / "study.sqlite3"
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert not decide(5, 2.0)
        with pytest.raises(ValueError, match="first"), recorded(run):
            raise ValueError("first")
        with pytest.raises(UserError, match=f"{path}: the study cannot be used: .*is locked;"):
            trial_values(SPACE, run)
    assert f"does not prune the trial: {path}: the study cannot be used" in caplog.text
    decide(10, 2.0)
    assert trials(run.parent)[0].intermediate_values == {10: 2.0}


def test_a_damaged_study_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite3"
    path.write_bytes(b"damaged" * 1000)
    with pytest.raises(UserError, match=f"{path}: the study cannot be used: file is not a data"):
        trial_values(SPACE, tmp_path / "search.trial=1")


def search_config(folder: Path, trial: int, **more: Any) -> Config:
    config = tiny_config(folder, **more)
    run = replace(config.run, folder=str(folder / "sweep" / f"search.trial={trial}"))
    return replace(config, run=run, search=replace(config.search, trial=trial, space=SPACE))


def test_a_trial_worse_than_the_median_is_pruned(tmp_path: Path) -> None:
    config = search_config(tmp_path, 9, max_updates=30, validate_every=10)
    run = config.run_folder
    for index in range(5):
        other = search_config(tmp_path, index + 1, max_updates=30, validate_every=10)
        trial_values(SPACE, other.run_folder)
        decide = pruning(other)
        assert decide is not None
        assert not any(decide(update, 3.0 - index / 10) for update in (10, 20, 30))
        completed(other.run_folder, 2.0)
    trial_values(SPACE, run)
    decide = pruning(config)
    assert decide is not None
    assert not decide(10, 9.0)  # too early to say
    assert decide(20, 9.0)
    assert decide(20, 9.0)  # a resumed run reports a validation again
    assert not decide(30, 9.0)  # nothing is left to save


def test_runs_outside_of_a_search_are_not_pruned(tmp_path: Path) -> None:
    assert pruning(tiny_config(tmp_path)) is None


def test_a_trial_needs_a_sweep(tmp_path: Path) -> None:
    config = search_config(tmp_path, 3)
    with pytest.raises(UserError, match=r"search\.trial=3 needs --multirun"):
        pruning(replace(config, run=replace(config.run, folder="")))


def test_a_trial_that_has_ended_is_not_pruned_when_it_is_continued(tmp_path: Path) -> None:
    config = search_config(tmp_path, 1)
    run, decide = config.run_folder, pruning(config)
    assert decide is not None
    trial_values(SPACE, run)
    write_json(run / "pruned.json", {})
    with recorded(run):
        pass
    assert not decide(5, 9.0)
    (run / "pruned.json").unlink()
    completed(run, 2.0)
    assert [trial.state for trial in trials(run.parent)] == [STATES.PRUNED]


@pytest.mark.parametrize("is_launched", [False, True])
def test_a_pruned_run_is_continued_only_if_asked(
    is_launched: bool, tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = search_config(tmp_path, 1, validate_every=5)
    experiment.open_run(config, digit_corpus)
    trained = []
    monkeypatch.setattr(train, "_run", lambda config, corpus: trained.append(config))
    monkeypatch.setattr(train.distributed, "join", lambda training: ALONE)
    start = train._worker if is_launched else train._start
    unpruned = replace(config, search=replace(config.search, prune=False))
    longer = replace(
        config,
        training=replace(config.training, patience=3),
        run=replace(config.run, accept_changes="training.patience"),
    )
    for continued in (unpruned, longer):
        write_json(config.run_folder / "pruned.json", {"update": 5, "loss": 9.0})
        assert not start(config, digit_corpus)
        assert start(continued, digit_corpus)
        assert not (config.run_folder / "pruned.json").exists()
    assert len(trained) == 2


def test_a_pruned_run_ends_at_its_validation(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(tmp_path, max_updates=6, validate_every=2)
    asked = []

    def decide(update: int, loss: float) -> bool:
        asked.append(loss)
        return update == 4

    monkeypatch.setattr(experiment, "pruning", lambda config: decide)
    experiment.open_run(config, digit_corpus)
    assert experiment.run_experiment(config, digit_corpus) is None
    record = read_json(config.run_folder / "pruned.json")
    assert record["update"] == 4
    assert record["loss"] in asked
    assert not (config.run_folder / "result.json").exists()
