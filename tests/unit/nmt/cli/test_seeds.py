import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.seeds import parse_seeds, seed_config, take_seeds, train_seeds
from nmt.config import Config
from nmt.errors import UserError
from nmt.files import read_json, write_json
from nmt.training.signals import Interruption
from tests.support import tiny_config

BLEU = {1: 20.0, 2: 23.0, 3: 22.0}


class Trainings:
    """Stands for training: a run of seed s has the BLEU of s, and may fail."""

    def __init__(self, failing: dict[int, BaseException] | None = None) -> None:
        self.begun: list[int] = []
        self.failing = failing or {}

    def __call__(self, config: Config) -> None:
        seed, folder = config.training.seed, config.run_folder
        if (folder / "result.json").is_file():
            return
        self.begun.append(seed)
        if seed in self.failing:
            raise self.failing[seed]
        write_json(folder / "environment.json", {"commit": "c", "corpus": "toy-1"})
        table = {"bleu": {"score": BLEU[seed], "signature": "tok:13a"}}
        valid = {"bleu": BLEU[seed] + 1, "loss": 2.0}
        more = {"chosen": "checkpoint", "updates": 10, "training_seconds": 1.0}
        write_json(folder / "result.json", {"valid": valid, "test_sets": {"test": table}, **more})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return tiny_config(tmp_path)


def latest(config: Config) -> str:
    return os.readlink(Path(config.run.outputs) / "latest")


def test_each_seed_has_a_run_and_the_file_has_them_all(
    config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    trainings = Trainings()
    train_seeds(config, [1, 2, 3], trainings)
    assert trainings.begun == [1, 2, 3]
    table = read_json(Path(config.run.outputs) / "seeds" / "tiny.json")
    assert table["test_sets"]["test"]["bleu"]["values"] == [20.0, 23.0, 22.0]
    assert table["runs"]["2"]["folder"] == "tiny_seed2"
    assert table["runs"]["2"]["commit"] == "c"
    assert capsys.readouterr().err.splitlines()[-1] == "test BLEU 21.67 ± 1.53 (3 seeds)  tok:13a"


def test_again_nothing_is_trained_and_latest_stays(config: Config) -> None:
    train_seeds(config, [1, 2], Trainings())
    assert latest(config) == "runs/tiny_seed2"  # the better one on validation
    (Path(config.run.outputs) / "latest").unlink()
    (Path(config.run.outputs) / "latest").symlink_to("runs/another")
    again = Trainings()
    train_seeds(config, [1, 2], again)
    assert again.begun == []
    assert latest(config) == "runs/another"
    more = Trainings()
    train_seeds(config, [1, 2, 3], more)
    assert more.begun == [3]
    assert latest(config) == "runs/tiny_seed2"


@pytest.mark.parametrize("failure", [UserError("full"), Interruption(15), SystemExit(1)])
def test_a_seed_that_fails_stops_the_others(
    config: Config, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    trainings = Trainings({2: failure})
    with pytest.raises(type(failure)):
        train_seeds(config, [1, 2, 3], trainings)
    assert trainings.begun == [1, 2]
    assert not (Path(config.run.outputs) / "seeds" / "tiny.json").exists()
    assert "stopped at seed 2; the same command continues with it" in caplog.text
    again = Trainings()
    train_seeds(config, [1, 2, 3], again)
    assert again.begun == [2, 3]


def test_runs_differ_in_seed_and_name_alone(config: Config) -> None:
    other = seed_config(config, 7)
    assert (other.training.seed, other.run.name) == (7, "tiny_seed7")
    assert replace(other, training=config.training, run=config.run) == config


def test_seeds_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train", "a=1", "seeds=3,1", "b=2"])
    assert take_seeds() == "3,1"
    assert sys.argv == ["train", "a=1", "b=2"]
    assert take_seeds() is None
    assert parse_seeds("3, 1,0") == [3, 1, 0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "seeds=: '' is no whole number from 0 on; write seeds=1,2,3"),
        ("1,,2", "seeds=1,,2: '' is no whole number"),
        ("1,x", "seeds=1,x: 'x' is no whole number"),
        ("-1", "seeds=-1: '-1' is no whole number"),
        ("1.5", "seeds=1.5: '1.5' is no whole number"),
        ("1,2,01", "seeds=1,2,01: 1 stands there twice; name each seed once"),
    ],
)
def test_wrong_seeds_are_named(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_seeds(text)
    assert str(caught.value).startswith(told)


def test_what_seeds_do_not_go_with_is_told(
    config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(given: Config) -> str:
        trainings: Any = Trainings()
        with pytest.raises(UserError) as caught:
            train_seeds(given, [1], trainings)
        assert trainings.begun == []
        return str(caught.value)

    in_sweep = replace(config, run=replace(config.run, folder=str(tmp_path / "a")))
    assert "neither with --multirun nor with run.folder" in refused(in_sweep)
    training = replace(config.training, num_hosts=2, rendezvous="a:1")
    assert "run.name=tiny_seed1" in refused(replace(config, training=training))
    with monkeypatch.context() as patch:
        patch.setenv("RANK", "0")
        assert "run.name=tiny_seed1" in refused(config)
    monkeypatch.setattr(sys, "argv", ["train", "training.seed=4"])
    assert "seeds= and training.seed= exclude each other" in refused(config)
