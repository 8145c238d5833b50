import json
import sys

import pytest

from nmt.cli.compose import combination


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    constant = ["experiment=x", "corpus.path=a/b", "tokenizer.joint=false"]
    monkeypatch.setattr(sys, "argv", ["train", "--multirun", "model.dropout=0.1,0.2", *constant])
    monkeypatch.delenv("NMT_COMMAND_LINE", raising=False)


def test_only_what_varies_names_the_folder() -> None:
    job = ["model.dropout=0.1", "experiment=x", "corpus.path=a/b", "tokenizer.joint=False"]
    assert combination(job) == "model.dropout=0.1"


def test_a_job_of_a_scheduler_names_the_folder_as_its_sender_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NMT_COMMAND_LINE", json.dumps(sys.argv))
    monkeypatch.setattr(sys, "argv", ["-m", "submitit.core._submit", "outputs/slurm"])
    assert combination(["model.dropout=0.1", "experiment=x"]) == "model.dropout=0.1"


def test_the_order_on_the_command_line_does_not_matter() -> None:
    assert combination(["b=1", "a=2"]) == combination(["a=2", "b=1"])


def test_paths_that_look_alike_do_not_collide() -> None:
    first, second = combination(["corpus.path=c/d"]), combination(["corpus.path=c_d"])
    assert "/" not in first
    assert first != second


def test_long_names_are_cut_and_stay_apart() -> None:
    first = combination([f"model.key_{i}=1" for i in range(60)])
    second = combination([f"model.key_{i}={i // 59 + 1}" for i in range(60)])
    assert first != second
    assert max(len(first), len(second)) < 200


def test_a_sweep_of_one_has_a_name_too() -> None:
    assert combination(["experiment=x"]) == "all"
