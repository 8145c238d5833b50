"""Report of a sweep: table, `ranking.tsv`, `report.html`, and the command."""

import csv
import errno
import sys
from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest
from omegaconf import DictConfig, OmegaConf

from nmt.base.errors import UserError
from nmt.base.files import write_json
from nmt.cli import sweep_report
from nmt.cli.application import CONFIG_FOLDER, VERSION_BASE
from nmt.config import save_config
from nmt.runs import sweep as runs_sweep
from nmt.runs.multirun import SweepCallback
from nmt.runs.sweep import find_sweep, write_sweep_report
from tests.html_check import check_page
from tests.support import refused, tiny_config
from tests.sweeps import add_run, swept_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sweep with a complete run, one that failed and one that is not complete."""
    folder = tmp_path / "sweeps" / "peak_lr_toy"
    add_run(folder / "rate=0.1,seed=1", swept_config(0.1, 1))
    add_run(folder / "rate=0.2,seed=1", swept_config(0.2, 1), is_complete=False)
    failed = add_run(folder / "rate=0.1,seed=2", swept_config(0.1, 2), is_complete=False)
    write_json(failed / "failure.json", {"lines": ["x", "error: out of paper"]})
    return folder


def test_a_sweep_without_runs_can_be_reported_again(tmp_path: Path) -> None:
    write_sweep_report(tmp_path)
    assert (tmp_path / "ranking.tsv").read_text().startswith("combination\tvalid_bleu\t")
    write_sweep_report(tmp_path)


def test_ranking_has_a_line_for_each_run(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write_sweep_report(folder)
    text = (folder / "ranking.tsv").read_text(encoding="utf-8")
    assert text.startswith("combination\tvalid_bleu\tvalid_loss\ttest_bleu\tupdates\t")
    first, *others = csv.DictReader(text.splitlines(), delimiter="\t")
    bleu = first["valid_bleu"]
    assert first == {
        "combination": "rate=0.1,seed=1",
        "valid_bleu": bleu,
        "valid_loss": "2.2000",
        "test_bleu": f"{float(bleu) - 1:.2f}",
        "updates": "10",
        "group": "schedule.peak_learning_rate=0.1",
        "seed": "1",
        "status": "complete",
        "parameters": "",
        "flops": "1e+09",
        "seconds": "20.0",
    }
    assert {row["status"] for row in others} == {"failed", "interrupted"}
    assert {row["test_bleu"] for row in others} == {""}
    printed = capsys.readouterr().err
    assert "1 of 2" in printed
    assert "failed: rate=0.1,seed=2: error: out of paper" in printed
    assert "interrupted: rate=0.2,seed=1" in printed
    assert "differences were not tested: there is no corpus of the runs" in printed
    assert f"written:\n  {folder / 'ranking.tsv'}\n  {folder / 'report.html'}\n" in printed
    assert max(map(len, printed.partition("failed:")[0].splitlines())) <= 80
    assert "out of paper" in check_page((folder / "report.html").read_text(encoding="utf-8"))


def test_a_sweep_over_seeds_ends_with_mean_scores_for_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (2, 10):
        add_run(tmp_path / "toy" / f"training.seed={seed}", swept_config(0.1, seed))
    sweep = write_sweep_report(tmp_path / "toy")
    bleu = sweep.groups[0].all_scores()["test", "bleu"]
    assert sweep.verdict() == f"test BLEU {bleu.format('bleu')} (2 seeds)  s"
    assert sweep.verdict() in capsys.readouterr().err.splitlines()
    page = check_page((tmp_path / "toy" / "report.html").read_text(encoding="utf-8"))
    assert sweep.verdict() in page
    assert "values of the seeds 2, 10" in page


def test_callback_reports_at_the_end_of_a_sweep(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}}, "run": {"dry_run": True}})
    SweepCallback().on_multirun_end(config)
    assert not (folder / "report.html").exists()
    config.run.dry_run = False
    with pytest.raises(SystemExit) as exited:
        SweepCallback().on_multirun_end(config)
    assert exited.value.code == 2
    assert (folder / "report.html").is_file()
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: 1 of 3 runs failed: rate=0.1,seed=2;")
    (folder / "rate=0.1,seed=2" / "failure.json").unlink()
    SweepCallback().on_multirun_end(config)


def starting(folder: Path, *task: str, n_jobs: int | None = None) -> DictConfig:
    """Return the configuration of Hydra for a sweep that begins."""
    hydra = {
        "launcher": {} if n_jobs is None else {"n_jobs": n_jobs},
        "overrides": {"task": list(task)},
        "sweep": {"dir": str(folder)},
        "sweeper": {},
    }
    return OmegaConf.create({"hydra": hydra})


@pytest.fixture
def presets() -> Iterator[None]:
    """The state of Hydra in a command."""
    with hydra.initialize_config_dir(str(CONFIG_FOLDER), version_base=VERSION_BASE):
        yield


@pytest.mark.usefixtures("presets")
@pytest.mark.parametrize("swept", ["training.seed=range(5,1)", "model=glob(nowhere*)"])
def test_a_sweep_without_values_is_refused(
    swept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        SweepCallback().on_multirun_start(starting(tmp_path, "model=glob(*)", swept))
    assert f"error: {swept} stands for no value, so no run" in capsys.readouterr().err


@pytest.mark.usefixtures("presets")
@pytest.mark.parametrize("swept", ["run.name=a,b", "run.outputs=x,y"])
def test_the_folder_of_a_sweep_is_not_swept(
    swept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        SweepCallback().on_multirun_start(starting(tmp_path, swept))
    assert "names the folder of the sweep" in capsys.readouterr().err


@pytest.mark.usefixtures("presets")
@pytest.mark.parametrize(("metric", "direction"), [("loss", "maximize"), ("bleu", "minimize")])
def test_a_search_for_the_worst_score_is_refused(
    metric: str, direction: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = starting(tmp_path)
    config.training = {"validation_metric": metric}
    config.hydra.sweeper.direction = direction
    with pytest.raises(SystemExit):
        SweepCallback().on_multirun_start(config)
    message = f"validation_metric={metric} needs hydra.sweeper.direction=m"
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("presets")
def test_failures_of_an_earlier_sweep_do_not_count(folder: Path) -> None:
    callback, config = SweepCallback(), starting(folder, "training.seed=1,2")
    callback.on_multirun_start(config)
    callback.on_multirun_end(config)
    write_json(folder / "rate=0.1,seed=2" / "failure.json", {"lines": ["again"]})
    with pytest.raises(SystemExit):
        callback.on_multirun_end(config)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ZeroDivisionError("oops"), 1, "ZeroDivisionError: oops"),
        (OSError(errno.ENOSPC, "full", "report.html"), 2, "error: report.html: cannot be written:"),
    ],
)
def test_an_error_of_the_report_ends_the_command(
    error: Exception,
    status: int,
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(folder: Path) -> None:
        raise error

    monkeypatch.setattr(runs_sweep, "write_sweep_report", fail)
    config = OmegaConf.create({"hydra": {"sweep": {"dir": str(folder)}}})
    with pytest.raises(SystemExit) as exited:
        SweepCallback().on_multirun_end(config)
    assert exited.value.code == status
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith(message)


def test_sweep_is_found_by_folder_name_or_beginning(folder: Path, tmp_path: Path) -> None:
    for name in (str(folder), "peak_lr_toy", "peak_lr"):
        assert find_sweep(name, tmp_path) == folder
    (folder.parent / "peak_small").mkdir()
    with pytest.raises(UserError, match="sweep=peak is the beginning of several sweeps: peak_lr"):
        find_sweep("peak", tmp_path)
    for name in ("lr", "peak_small", str(tmp_path)):
        with pytest.raises(UserError, match=f"sweep={name} has no runs; .* peak_lr_toy, peak_sm"):
            find_sweep(name, tmp_path)
    with pytest.raises(UserError, match="are none"):
        find_sweep("lr", folder)


def test_a_folder_of_other_runs_is_no_sweep(tmp_path: Path) -> None:
    save_config(tiny_config(tmp_path), tmp_path / "runs" / "mine" / "config.yaml")
    with pytest.raises(UserError, match=r"runs has runs that belong to no sweep$"):
        find_sweep(str(tmp_path / "runs"), tmp_path)


def test_command(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sweep_report", "sweep=peak_lr", f"outputs={tmp_path}"])
    sweep_report.main()
    assert (folder / "ranking.tsv").is_file()


@pytest.mark.parametrize("name", ["ranking.tsv", "report.html"])
def test_files_of_the_user_are_not_replaced(name: str, folder: Path) -> None:
    (folder / name).write_text("mine\n")
    with refused(f"{name} already exists; remove or rename", folder):
        write_sweep_report(folder)
    assert (folder / name).read_text() == "mine\n"
    (folder / name).unlink()
    write_sweep_report(folder)
    write_sweep_report(folder)  # replaces its own
