"""The table of runs in progress and of completed ones."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from nmt.base.errors import UserError
from nmt.base.files import read_json, write_json
from nmt.base.locks import exclusive
from nmt.cli import watch
from nmt.runs.log import converted_errors
from nmt.training.signals import Interruption
from tests.sweeps import add_run, swept_config


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Seven completed runs, the first one the newest, and one that was interrupted."""
    for number in range(7):
        result = add_run(tmp_path / f"runs/run{number}", swept_config(0.1, 1)) / "result.json"
        os.utime(result, (1e9 - number, 1e9 - number))
    add_run(tmp_path / "runs/interrupted", swept_config(0.1, 1), is_complete=False)
    return tmp_path


@pytest.fixture
def running(outputs: Path) -> Iterator[Path]:
    """A run of a sweep that is in progress: its best validation is not the last one."""
    run = add_run(outputs / "sweeps/rates/rate=0.1", swept_config(0.1, 1), is_complete=False)
    with exclusive(run / ".lock", lambda: None), (run / "metrics.jsonl").open("a") as out:
        out.write('{"update": 10, "valid/loss": 2.0, "valid/bleu": 1.5}\n{"update": 11, "train/los')
        out.flush()
        yield run


def printed(table: Table) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def test_runs_in_progress_then_the_last_completed_ones(outputs: Path, running: Path) -> None:
    assert watch.find_runs(outputs) == (
        [running],
        [outputs / "runs" / f"run{number}" for number in range(5)],
    )
    text = printed(watch.runs_table(outputs))
    title, _, rows = text.partition("─")
    assert "1 in progress, 5 completed last" in " ".join(title.split())
    names = [line.split()[0] for line in rows.splitlines()[1:]]
    assert names == ["rates/rate=0.1", *(f"run{number}" for number in range(5))]


def test_progress_of_a_run(running: Path) -> None:
    *_, final, last = (running / "metrics.jsonl").read_text(encoding="utf-8").split('"valid/bleu":')
    best = float(final.partition("}")[0])
    assert float(last.partition("}")[0]) == 1.5
    cells = watch.progress_cells(running)
    assert cells == ["10 of 10", "100 %", "2.700", "1.50", f"{best:.2f}", "1,000", "0:00:00"]
    config = (running / "config.yaml").read_text(encoding="utf-8")
    changed = config.replace("max_updates: 10\n", "max_updates: 40\n")
    (running / "config.yaml").write_text(changed, encoding="utf-8")
    assert watch.progress_cells(running)[:2] == ["10 of 40", "25 %"]
    assert watch.progress_cells(running)[-1] == "0:01:00"  # 2 seconds for each of 30 updates
    limited = changed.replace("max_minutes: 0.0", "max_minutes: 0.5")
    (running / "config.yaml").write_text(limited, encoding="utf-8")
    assert watch.progress_cells(running)[-1] == "0:00:10"


def test_run_that_is_just_starting(running: Path) -> None:
    (running / "metrics.jsonl").unlink()
    assert watch.progress_cells(running) == ["0 of 10", "0 %", "–", "–", "–", "–", "–"]
    (running / "config.yaml").unlink()
    assert watch.progress_cells(running) == ["0", "–", "–", "–", "–", "–", "–"]


def test_damaged_files_are_shown_as_far_as_they_can_be_read(running: Path) -> None:
    lines = ['["train/seconds"]', '{"train/seconds": 1}', '{"update": "a", "valid/bleu": 3}', "{"]
    (running / "metrics.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (running / "config.yaml").write_text("7", encoding="utf-8")
    assert watch.progress_cells(running) == ["0", "–", "–", "–", "–", "–", "–"]


def test_prints_once_where_there_is_no_terminal(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["watch", f"outputs={outputs}"])
    watch.main()
    assert "5 completed last" in " ".join(capsys.readouterr().err.split())
    monkeypatch.setattr(sys, "argv", ["watch", f"outputs={outputs / 'none'}"])
    with pytest.raises(UserError, match="none is not a folder"):
        watch.main()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_refreshes_until_ctrl_c(
    outputs: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(watch, "console", terminal)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys, "argv", ["watch", f"outputs={outputs}", "every=3"])
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        write_json(outputs / "runs/interrupted/result.json", {})
        if len(waited) == 2:
            signal.raise_signal(number)

    monkeypatch.setattr("time.sleep", sleep)
    with ExitStack() as stack:
        if number == signal.SIGTERM:
            stack.enter_context(pytest.raises(Interruption))
        with converted_errors():
            watch.main()
    assert waited == [3.0, 3.0]
    text: str = terminal.file.getvalue()  # type: ignore[attr-defined]
    assert "interrupted" in text  # was completed while the table was shown


def test_a_completed_run_that_is_too_short_for_records_has_its_updates(outputs: Path) -> None:
    run = outputs / "runs" / "run0"
    (run / "metrics.jsonl").write_text('{"update": 2, "valid/loss": 2.0, "valid/bleu": 1.5}\n')
    updates = read_json(run / "result.json")["updates"]
    assert updates > 0
    assert watch.progress_cells(run)[0] == f"{updates:,}"
