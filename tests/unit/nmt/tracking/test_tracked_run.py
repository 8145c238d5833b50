"""A whole run with all trackers: what they hold, and that they change nothing."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from nmt.base.files import read_json
from nmt.config import Config, TrackingConfig
from nmt.data.corpus import PreparedCorpus
from nmt.runs import experiment
from nmt.tracking import trackers
from nmt.tracking.tracker import Tracker
from nmt.training.checkpoint import CheckpointStore, TrainingState
from nmt.training.trainer import Trainer
from tests import wandb_file
from tests.runs import Killed, assert_same, killed_after, last_state, metrics, resumed_config, run
from tests.support import ALONE, tiny_config
from tests.tracked_run import tracked_config

ROOT = Path(__file__).parents[4]
CANARY = "0123canary" * 4
WANDB = {"WANDB_MODE": "offline", "WANDB_TAGS": "first,tiny", "WANDB_NOTES": "A test."}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ended(
    tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path
) -> tuple[Config, subprocess.CompletedProcess[str]]:
    """A completed run with all trackers, offline, with secrets in the environment."""
    outputs = tmp_path_factory.mktemp("tracked")
    names = ("WANDB_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "SLURM_JWT")
    secrets = dict.fromkeys(names, CANARY)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.tracked_run", str(outputs), str(digit_corpus)],
        cwd=ROOT,
        env={**os.environ, **secrets, **WANDB},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    return tracked_config(outputs), ended


@pytest.fixture(scope="module")
def tracked(ended: tuple[Config, subprocess.CompletedProcess[str]]) -> Config:
    return ended[0]


@pytest.fixture(scope="module")
def stored(tracked: Config) -> Path:
    """The file of wandb."""
    [path] = tracked.run_folder.glob("wandb/offline-run-*/run-*.wandb")
    return path


def records(path: Path, kind: str) -> list[Any]:
    return [getattr(each, kind) for each in wandb_file.records(path) if each.HasField(kind)]


def written_metrics(config: Config) -> list[dict[str, Any]]:
    lines = (config.run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_wandb_has_the_records_of_metrics_jsonl(tracked: Config, stored: Path) -> None:
    history = wandb_file.history(stored)
    for written in written_metrics(tracked):
        assert any(written.items() <= row.items() for row in history), written
    validations = [row for row in history if "valid/bleu" in row]
    assert [row["update"] for row in validations] == [5, 10]
    assert all(row["train/target_tokens"] > 0 for row in validations)


def test_wandb_knows_the_axes_and_the_best_values(stored: Path) -> None:
    found = {each.name or each.glob_name: each for each in records(stored, "metric")}
    assert {"update", "train/target_tokens"} < found.keys()
    assert found["*"].step_metric == "update"
    for name, best in {"train/loss": "min", "valid/loss": "min", "valid/bleu": "max"}.items():
        assert found[name].step_metric == "update"
        assert getattr(found[name].summary, best)
        assert found[name].summary.last


def test_wandb_groups_the_run_and_can_filter_by_its_configuration(
    tracked: Config, stored: Path
) -> None:
    [started] = records(stored, "run")
    identity = read_json(tracked.run_folder / "environment.json")["run_id"]
    assert (started.run_id, started.project) == (identity, "mine")
    names = started.display_name, started.run_group, started.job_type
    assert names == ("seed=1", "rates", "sweep")
    assert (list(started.tags), started.notes) == (["first", "tiny"], "A test.")
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
    assert json.loads(summary["test/test/bleu_ci95"]) == pytest.approx(bleu["ci95"])
    cost = {key: json.loads(summary[f"cost/{key}"]) for key in ("parameters", "training_flops")}
    assert cost.items() <= result["cost"].items()
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
    [exited] = records(stored, "exit")
    assert exited.exit_code == 0


def paths(artifact: Any) -> set[str]:
    return {each.path for each in artifact.manifest.contents}


def events(config: Config) -> EventAccumulator:
    sizes = {"scalars": 0, "images": 0, "tensors": 0}  # keep all
    accumulator = EventAccumulator(str(config.run_folder / "tensorboard"), sizes)
    return accumulator.Reload()


def test_tensorboard_has_curves_sentences_pictures_and_scores(tracked: Config) -> None:
    found = events(tracked)
    for name in ("train/loss", "valid/bleu"):
        expected = [(row["update"], row[name]) for row in written_metrics(tracked) if name in row]
        points = found.Scalars(name)
        assert [point.step for point in points] == [update for update, _ in expected]
        values = [point.value for point in points]
        assert values == pytest.approx([value for _, value in expected])
    sentences = found.Tensors("translations/sentences/text_summary")
    assert [each.step for each in sentences] == [5, 10]
    text = sentences[0].tensor_proto.string_val[0].decode()
    assert text.startswith("| source | reference | translation | chrF |\n")
    assert text.count("\n") == 1 + 6
    for number in (1, 2, 3):
        pictures = found.Images(f"translations/attention_{number}")
        assert [each.step for each in pictures] == [5, 10]
        assert pictures[0].encoded_image_string.startswith(b"\x89PNG")
    result = read_json(tracked.run_folder / "result.json")
    [bleu] = found.Scalars("test/test/bleu")
    assert bleu.value == pytest.approx(result["test_sets"]["test"]["bleu"]["score"])
    [scores] = found.Tensors("test/scores/text_summary")
    assert "| test | bleu |" in scores.tensor_proto.string_val[0].decode()


def test_nothing_is_printed_and_no_server_is_asked(
    ended: tuple[Config, subprocess.CompletedProcess[str]],
) -> None:
    config, process = ended
    assert process.stdout == ""
    assert "Traceback" not in process.stderr
    assert not (Path(config.run.outputs) / "connections.txt").exists()


def test_no_secret_reaches_a_file(ended: tuple[Config, subprocess.CompletedProcess[str]]) -> None:
    config, process = ended
    files = [path for path in Path(config.run.outputs).rglob("*") if path.is_file()]
    assert {"config.yaml", "environment.json", "train.log"} < {path.name for path in files}
    found = [path for path in files if CANARY.encode() in path.read_bytes()]
    assert found == []
    assert CANARY not in process.stderr


@pytest.fixture(scope="module")
def untracked(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> tuple[Any, Any]:
    """Metrics and last state of the same training without trackers."""
    config = tiny_config(tmp_path_factory.mktemp("untracked"))
    config.run_folder.mkdir(parents=True)
    Trainer(config, PreparedCorpus(digit_corpus), ALONE).run()
    return metrics(config), last_state(config)


def test_trackers_do_not_change_the_training(tracked: Config, untracked: tuple[Any, Any]) -> None:
    assert_same(untracked, (metrics(tracked), last_state(tracked)))


class Failing(Tracker):
    """A tracker whose every method raises."""

    def log(self, *arguments: object) -> None:
        raise ConnectionError("gone")

    validation = alert = completed = flush = close = log


def test_a_tracker_that_fails_does_not_change_the_training(
    tmp_path: Path,
    digit_corpus: Path,
    untracked: tuple[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = replace(tiny_config(tmp_path), tracking=TrackingConfig(tensorboard=True))
    monkeypatch.setattr(trackers, "TensorboardTracker", lambda *arguments: Failing())
    run(config, digit_corpus)
    assert_same(untracked, (metrics(config), last_state(config)))
    assert caplog.text.count("nothing more is recorded: gone") == 1


def test_a_resumed_run_repeats_no_record(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = TrackingConfig(tensorboard=True)
    config = replace(resumed_config(tmp_path), tracking=tracking)
    monkeypatch.setattr(experiment, "finish", lambda *arguments: [])
    killed_after(config, digit_corpus, 7, monkeypatch)  # the record of update 6 is written
    run(config, digit_corpus)
    updates = [row["update"] for row in metrics(config) if "train/loss" in row]
    assert updates == [3, 6, 9]
    assert [point.step for point in events(config).Scalars("train/loss")] == updates


def test_a_validation_before_a_kill_is_recorded_once(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = TrackingConfig(tensorboard=True)
    config = replace(tiny_config(tmp_path, log_every=5), tracking=tracking)
    monkeypatch.setattr(experiment, "finish", lambda *arguments: [])

    def killed(self: CheckpointStore, state: TrainingState) -> None:
        if state.update == config.training.max_updates:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "update_state", killed)
        with pytest.raises(Killed):
            run(config, digit_corpus)
    run(config, digit_corpus)
    for name in ("train/loss", "valid/bleu"):
        assert [point.step for point in events(config).Scalars(name)] == [5, 10]
