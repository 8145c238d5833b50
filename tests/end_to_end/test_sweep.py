"""Sweeps by the command line: failed, complete and repeated runs, in parallel and in a search."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from nmt.base.files import read_json, write_lines
from tests.support import reversed_digits

SMALL = (
    "corpus=folder corpus.name=digits corpus.direction=en-de tokenizer.vocabulary_size=272"
    " model.width=16 model.feed_forward_width=16 model.num_encoder_layers=1"
    " model.num_decoder_layers=1 model.num_heads=2 batching.max_source_length=32"
    " batching.max_target_length=32 batching.target_tokens_per_update=160"
    " batching.tokens_per_micro_batch=160 decoding.beam_size=1 schedule.warmup_updates=1"
    " training.num_threads=1 training.max_updates=2 training.validate_every=1"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for split, count in (("train", 300), ("valid", 6)):
        pairs = reversed_digits(count, count)
        write_lines(folder / f"{split}.en", [source for source, _ in pairs])
        write_lines(folder / f"{split}.de", [target for _, target in pairs])
    return folder


def command(data: Path, *arguments: str) -> list[str]:
    words = [sys.executable, "-m", "nmt", "train", f"corpus.path={data}"]
    words += [f"run.outputs={data.parent / 'outputs'}", "run.name=toy"]
    return [*words, *SMALL.split(), "--multirun", *arguments]


def sweep(
    data: Path, *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(data, *arguments),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env=os.environ | environment,
    )


def test_a_failed_run_is_reported_and_the_others_go_on(data: Path) -> None:
    # `auto` starts further processes from those of joblib.
    auto = "batching.tokens_per_micro_batch=auto"
    arguments = ("cluster=parallel", auto, "model.width=15,32", "tokenizer.vocabulary_size=273,274")
    ended = sweep(data, *arguments)
    folder = data.parent / "outputs" / "sweeps" / "toy"
    assert ended.returncode == 2, ended.stderr
    assert "error: 2 of 4 runs failed: model.width=15,tokenizer.vocabulary_size=273" in ended.stderr
    lines = read_json(folder / "model.width=15,tokenizer.vocabulary_size=273" / "failure.json")
    assert lines == {
        "lines": ["configuration: model.width=15 is not divisible by model.num_heads=2"]
    }
    assert len(list((data.parent / "outputs" / "corpora").glob("digits-*"))) == 2
    complete = sorted(folder.glob("*/result.json"))
    assert [path.parent.name[:14] for path in complete] == ["model.width=32"] * 2
    times = [path.stat().st_mtime_ns for path in complete]
    assert (folder / "report.html").is_file()
    # The same command tries only what is missing.
    assert sweep(data, *arguments).returncode == 2
    assert [path.stat().st_mtime_ns for path in complete] == times


def test_failed_dry_runs_are_an_error_and_leave_nothing(data: Path) -> None:
    ended = sweep(data, "run.dry_run=true", "model.width=15,17")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == "error: the dry run of model.width=15 has failed"
    assert not (data.parent / "outputs").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_parallel_runs_are_saved_after_a_signal(data: Path, number: signal.Signals) -> None:
    endless = ("training.max_updates=100000", "training.validate_every=100000")
    parallel = ("cluster=parallel", "training.seed=1,2", *endless, "training.log_every=10")
    process = subprocess.Popen(command(data, *parallel), stderr=subprocess.PIPE, text=True)
    sweeps = data.parent / "outputs" / "sweeps"

    def logs_with(message: str) -> int:
        return sum(message in path.read_text() for path in sweeps.glob("toy/*/train.log"))

    try:
        while logs_with("update 10 of") < 2:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate()  # ends when the runs have closed stderr, too
    finally:
        process.kill()
    if number is signal.SIGTERM:
        assert (process.returncode, errors.splitlines()[-1]) == (143, "error: interrupted")
    assert logs_with("saved at update") == 2


def test_a_search_is_repeated_until_its_next_trial(data: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    search = ("sweep=search", "model.width=16", "schedule.warmup_updates=1")
    first = sweep(data, *search, "hydra.sweeper.n_trials=2")
    assert first.returncode == 0, first.stderr
    folder = data.parent / "outputs" / "sweeps" / "toy"
    trials = {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    assert len(trials) == 2
    assert all(name.startswith("model.dropout=0.") for name in trials)
    second = sweep(data, *search, "hydra.sweeper.n_trials=3")
    assert second.returncode == 0, second.stderr
    after = {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    assert len(after) == 3
    assert trials.items() <= after.items()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_runs_on_a_ray_cluster_work_in_the_folder_of_the_command(data: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        arguments = ("cluster=ray", "hydra.launcher.n_jobs=2", "training.seed=1,2")
        root = Path(__file__).resolve().parents[2]
        environment = {"RAY_ADDRESS": cluster.address, "PYTHONPATH": str(root)}
        relative = (*arguments, "run.outputs=relative")
        too_many = sweep(data, *relative, "training.num_threads=2", **environment)
        ended = sweep(data, *relative, folder=data.parent, **environment)
    finally:
        cluster.shutdown()
    assert too_many.returncode == 2
    assert (
        "must be from 2 to the number of runs that fit into the Ray cluster, 0" in too_many.stderr
    )
    assert ended.returncode == 0, ended.stderr
    # Messages of Ray's workers are in its own logs.
    assert "[training.seed=1]" not in ended.stderr
    complete = (data.parent / "relative" / "sweeps" / "toy").glob("*/result.json")
    assert sorted(path.parent.name for path in complete) == ["training.seed=1", "training.seed=2"]
