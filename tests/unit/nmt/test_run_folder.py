"""Files of a run folder: status of the run, and records of metrics."""

import os
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_json
from nmt.base.locks import exclusive, is_locked
from nmt.run_folder import Run, Status


def test_the_first_file_of_the_order_counts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert Run(run).status is None
    run.mkdir()
    (run / "train.log").touch()
    assert Run(run).status is None
    order = ["config.yaml", "failure.json", "result.json"]
    expected = [Status.interrupted, Status.failed, Status.complete]
    for name, status in zip(order, expected, strict=True):
        write_json(run / name, {})
        assert Run(run).status is status
    with exclusive(run / ".lock", lambda: None):
        assert Run(run).status is Status.running
    assert Run(run).status is Status.complete


def test_looking_at_a_lock_does_not_hold_it(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    assert not is_locked(lock)
    assert not lock.exists()
    lock.touch()
    assert not is_locked(lock)
    with exclusive(lock, lambda: pytest.fail("the lock is held")):
        assert is_locked(lock)


def test_incomplete_last_record_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    assert Run(tmp_path).records == []
    path.write_text('{"update": 1, "train/loss": NaN, "note": "a\u2028b"}\n{"upd', encoding="utf-8")
    (record,) = Run(tmp_path).metrics
    assert record["update"] == 1
    path.write_text('{"update": 1}\n[]\n', encoding="utf-8")
    with pytest.raises(
        UserError, match=r"metrics\.jsonl: line 2 is not a JSON object with `update`"
    ):
        _ = Run(tmp_path).metrics


def test_a_folder_of_another_user_is_not_an_incomplete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Run(tmp_path).notes == []
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    [note, *_] = Run(tmp_path).notes
    assert note == f"{tmp_path / 'config.yaml'}: cannot be read: permission denied"


def test_folders_that_a_kill_has_left_are_no_evaluations(tmp_path: Path) -> None:
    scores = {"bleu": {"score": 1.0, "signature": ""}, "sentences": 1}
    for name in ("test", ".test.123.tmp"):
        write_json(tmp_path / "evaluation" / name / "scores.json", scores)
    assert Run(tmp_path).evaluations == {"test": scores}
