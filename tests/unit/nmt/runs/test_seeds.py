import io
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nmt.base.errors import UserError
from nmt.base.files import read_json, write_json
from nmt.base.signals import Interruption
from nmt.config import Config
from nmt.evaluation.spread import Spread, seeds_table, student_quantile, summarise
from nmt.runs import seeds as seeds_module
from nmt.runs.seeds import parse_seeds, seed_config, train_seeds
from tests.support import tiny_config

Train = Callable[..., list[int]]
BLEU = {1: 20.0, 2: 23.0, 3: 22.0}


def result(bleu: float, signature: str = "tok:13a", **more: dict[str, Any]) -> dict[str, Any]:
    table = {"bleu": {"score": bleu, "signature": signature, "ci95": 1.0}, "sentences": 8, **more}
    return {
        "valid": {"bleu": bleu + 1, "loss": 2.0},
        "test_sets": {"test": table},
        "chosen": "checkpoint",
        "updates": 10,
        "training_seconds": 1.0,
    }


class FakeTraining:
    """Writes the result of a run whose BLEU depends on its seed, or fails."""

    def __init__(self, failing: dict[int, BaseException] | None = None) -> None:
        self.started: list[int] = []
        self.failing = failing or {}

    def __call__(self, config: Config) -> None:
        seed, folder = config.training.seed, config.run_folder
        if (folder / "result.json").is_file():
            return
        self.started.append(seed)
        if seed in self.failing:
            raise self.failing[seed]
        texts = dict.fromkeys(("run_id", "commit", "processor", "corpus"), "x")
        numbers = {"gpus": [], "processes": 1, "threads": 1, "cpu_library": "torch"}
        write_json(folder / "environment.json", {**texts, **numbers})
        write_json(folder / "result.json", result(BLEU[seed]))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return tiny_config(tmp_path)


@pytest.fixture
def train(config: Config, monkeypatch: pytest.MonkeyPatch) -> Train:
    """Train the seeds; returns those that were started."""

    def train(seeds: list[int], training: FakeTraining | None = None, **run: str) -> list[int]:
        training = training or FakeTraining()
        monkeypatch.setattr(seeds_module, "train", training)
        train_seeds(replace(config, run=replace(config.run, **run)), seeds)
        return training.started

    return train


def test_each_seed_has_its_own_run_and_one_file_holds_all_scores(
    config: Config, train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train([1, 2, 3]) == [1, 2, 3]
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == f"seed 2, 2 of 3: {config.run.outputs}/runs/tiny_seed2"
    table = read_json(Path(config.run.outputs) / "seeds" / "tiny.json")
    bleu = table["test_sets"]["test"]["bleu"]
    assert (bleu["values"], bleu["signature"]) == ([20.0, 23.0, 22.0], "tok:13a")
    assert table["runs"]["2"]["folder"] == "tiny_seed2"


def test_complete_seeds_are_not_trained_again(train: Train) -> None:
    assert train([1, 2]) == [1, 2]
    assert train([1, 2]) == []
    assert train([1, 2, 3]) == [3]


@pytest.mark.parametrize("failure", [UserError("full"), Interruption(15), SystemExit(1)])
def test_a_failing_seed_stops_the_command_which_can_be_continued(
    config: Config, train: Train, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    training = FakeTraining({2: failure})
    with pytest.raises(type(failure)):
        train([1, 2, 3], training)
    assert training.started == [1, 2]
    assert not (Path(config.run.outputs) / "seeds" / "tiny.json").exists()
    assert "stopped at seed 2; the same command continues with it" in caplog.text
    assert train([1, 2, 3]) == [2, 3]


def test_runs_of_seeds_differ_only_in_seed_and_name(config: Config) -> None:
    other = seed_config(config, 7)
    assert (other.training.seed, other.run.name) == (7, "tiny_seed7")
    assert replace(other, training=config.training, run=config.run) == config


def test_options_that_conflict_with_seeds_are_refused(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "seeds= cannot be combined with"
    with pytest.raises(UserError, match=message):
        train([1], folder="a")
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "0")
        with pytest.raises(UserError, match=message):
            train([1])
    monkeypatch.setattr(sys, "argv", ["train", "training.seed=4"])
    with pytest.raises(UserError, match=message):
        train([1])


@pytest.mark.parametrize("text", ["", "1,,2", "-1", "1.5", "1,2,01", "4294967296", "9" * 21, "٣"])
def test_seeds_are_parsed_and_invalid_ones_refused(text: str) -> None:
    assert parse_seeds("3, 1,0") == [3, 1, 0]
    with pytest.raises(
        UserError, match=f"seeds={text}: write different integers from 0 to 4294967295"
    ):
        parse_seeds(text)
    with pytest.raises(UserError, match=r"seeds=9+ … 9+: write"):
        parse_seeds("9" * 5000)  # Python converts at most 4,300 digits


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (1000, 1.962)]
)
def test_quantiles_agree_with_printed_tables(degrees: int, quantile: float) -> None:
    assert student_quantile(degrees) == pytest.approx(quantile, abs=1e-3)


def test_spread_of_three_seeds_and_of_one() -> None:
    spread = Spread.of((24.0, 25.0, 27.0))
    assert spread.mean == pytest.approx(76 / 3)
    assert spread.deviation == pytest.approx(math.sqrt(7 / 3))
    assert spread.ci95 == pytest.approx(4.302653 * math.sqrt(7 / 9), rel=1e-4)
    assert asdict(Spread.of((24.0,))) == {
        **{"values": (24.0,), "mean": 24.0, "deviation": None, "ci95": None, "signature": ""}
    }


def test_only_metrics_that_all_seeds_have_are_summarised() -> None:
    comet = {"comet": {"score": 0.8, "signature": "wmt22"}}
    chrf = {"chrf": {"score": 50.0, "signature": "c"}}
    summary = summarise("toy", {2: result(24, **chrf, **comet), 1: result(26, **chrf)})
    assert summary.seeds == (2, 1)
    assert summary.valid["bleu"].values == (25, 27)
    assert list(summary.test_sets["test"]) == ["bleu", "chrf"]
    assert summary.last_line() == "test BLEU 25.00 ± 1.41 (2 seeds)  tok:13a"
    assert summary.test_sets["test"]["bleu"].mean == 25


def test_scores_that_are_not_comparable_have_no_mean() -> None:
    other = result(24)
    other["test_sets"]["more"] = other["test_sets"]["test"]
    for results in (
        {1: result(24, "a"), 2: result(26, "b")},
        {1: result(24), 2: other},
        {1: other, 2: result(24)},
    ):
        with pytest.raises(UserError, match="the runs toy have different test sets or BLEU sig"):
            summarise("toy", results)


def test_the_table_fits_into_100_columns() -> None:
    results = {seed: result(24 + seed / 8) for seed in range(1, 6)}
    out = io.StringIO()
    Console(file=out, width=100).print(seeds_table(summarise("toy", results)))
    text = out.getvalue()
    for cell in ("24.38 ± 0.20", "24.13 to 24.62", "24.12, 24.25, 24.38, 24.50, 24.62"):
        assert cell in text
    assert max(map(len, text.splitlines())) <= 100
