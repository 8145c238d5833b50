"""A whole run with trackers: what they hold, and that they change nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wandb

from nmt.base.files import read_json
from nmt.config import Config, TrackingConfig
from tests import wandb_file
from tests.runs import run
from tests.support import tiny_config


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> Config:
    """A completed run of a sweep with all trackers, without network."""
    outputs = tmp_path_factory.mktemp("tracked")
    config = tiny_config(outputs)
    config = replace(
        config,
        tracking=TrackingConfig(wandb=True, project="mine"),
        run=replace(config.run, folder=str(outputs / "sweeps" / "rates" / "seed=1")),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        run(config, digit_corpus)
        wandb.teardown()  # or other processes would share its service
    return config


@pytest.fixture(scope="module")
def stored(tracked: Config) -> Path:
    [path] = tracked.run_folder.glob("wandb/offline-run-*/run-*.wandb")
    return path


def records(path: Path, kind: str) -> list[Any]:
    return [getattr(each, kind) for each in wandb_file.records(path) if each.HasField(kind)]


def test_wandb_has_the_records_of_metrics_jsonl(tracked: Config, stored: Path) -> None:
    lines = (tracked.run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    history = wandb_file.history(stored)
    for written in map(json.loads, lines):
        assert any(written.items() <= row.items() for row in history), written
    validations = [row for row in history if "valid/bleu" in row]
    assert [row["update"] for row in validations] == [5, 10]
    assert all(row["train/target_tokens"] > 0 for row in validations)


def test_wandb_knows_the_axes_and_the_best_values(stored: Path) -> None:
    metrics = {each.name or each.glob_name: each for each in records(stored, "metric")}
    assert {"update", "train/target_tokens"} < metrics.keys()
    assert metrics["*"].step_metric == "update"
    for name, best in {"train/loss": "min", "valid/loss": "min", "valid/bleu": "max"}.items():
        assert metrics[name].step_metric == "update"
        assert getattr(metrics[name].summary, best)
        assert metrics[name].summary.last


def test_wandb_groups_the_run_and_can_filter_by_its_configuration(
    tracked: Config, stored: Path
) -> None:
    [started] = records(stored, "run")
    identity = read_json(tracked.run_folder / "environment.json")["run_id"]
    assert (started.run_id, started.project) == (identity, "mine")
    assert (started.display_name, started.run_group, started.job_type) == (
        "seed=1",
        "rates",
        "sweep",
    )
    values = {each.key: json.loads(each.value_json) for each in started.config.update}
    assert values["training.seed"] == 1
    assert values["schedule.peak_learning_rate"] == 5e-3
    assert records(stored, "stats")  # use of GPU and CPU


def test_wandb_has_the_same_sentences_and_pictures_at_each_validation(stored: Path) -> None:
    files = stored.parent / "files"
    validations = [row for row in wandb_file.history(stored) if "valid/bleu" in row]
    tables = [
        json.loads((files / row["translations/sentences.path"]).read_text(encoding="utf-8"))
        for row in validations
    ]
    assert tables[0]["columns"] == ["source", "reference", "translation", "chrF"]
    sources = [[cells[:2] for cells in table["data"]] for table in tables]
    assert sources[0] == sources[1]
    assert len(sources[0]) == 6  # the whole validation set
    for row in validations:
        for number in (1, 2, 3):
            path = files / row[f"translations/attention_{number}.path"]
            assert path.read_bytes().startswith(b"\x89PNG")
            caption = row[f"translations/attention_{number}.caption"]
            assert caption in [cells[0] for cells in sources[0]]


def test_wandb_has_the_scores_the_report_and_the_lineage(tracked: Config, stored: Path) -> None:
    result = read_json(tracked.run_folder / "result.json")
    bleu = result["test_sets"]["test"]["bleu"]
    summary: dict[str, str] = {}
    for update in records(stored, "summary"):
        summary |= {
            each.key or "/".join(each.nested_key): each.value_json for each in update.update
        }
    assert json.loads(summary["test/test/bleu"]) == pytest.approx(bleu["score"])
    files = stored.parent / "files"
    [row] = [row for row in wandb_file.history(stored) if "test/scores.path" in row]
    table = json.loads((files / row["test/scores.path"]).read_text(encoding="utf-8"))
    assert ["test", "bleu", bleu["score"], bleu["ci95"], bleu["signature"]] in table["data"]
    assert "<html" in (files / row["report.path"]).read_text(encoding="utf-8")
    artifacts = {each.type: each for each in records(stored, "artifact")}
    corpus, model = artifacts["corpus"], artifacts["model"]
    assert (corpus.use_after_commit, model.use_after_commit) == (True, False)
    assert paths(corpus) == {"manifest.json"}
    assert {"weights.safetensors", "config.yaml", "report.html"} < paths(model)


def paths(artifact: Any) -> set[str]:
    return {each.path for each in artifact.manifest.contents}
