"""The runs of a sweep: groups, ranking, significance, and files that cannot be read."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.files import read_json, write_json, write_lines
from nmt.base.locks import exclusive
from nmt.config import save_config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.sweep import count_statuses, format_value, read_sweep, swept_keys
from nmt.metrics.scores import bleu_score
from nmt.run_folder import Status, series
from tests.support import made_up_sentences, with_noise, write_corpus, write_environment
from tests.sweeps import add_run, swept_config

REFERENCES = made_up_sentences(40)


@pytest.fixture
def sweep(tmp_path: Path, tokenizer_path: Path) -> Path:
    """A sweep of two rates with two seeds each."""
    pairs = [(line, line) for line in REFERENCES]
    for name in ("toy-1", "toy-2"):
        write_corpus(tmp_path / "corpora" / name, tokenizer_path, {"train": pairs, "valid": pairs})
    folder = tmp_path / "sweeps" / "rates"
    for rate, noise in ((0.01, 0.1), (0.02, 0.3)):
        for seed in (1, 2):
            config = swept_config(rate, seed)
            add_run(folder / f"rate={rate},seed={seed}", config, REFERENCES, noise, "toy-1")
    (folder / ".submitit").mkdir()
    (folder / "multirun.yaml").touch()
    return folder


def test_runs_are_grouped_over_seeds_and_ranked(sweep: Path) -> None:
    found = read_sweep(sweep)
    assert found.name == "rates"
    assert found.keys == ["schedule.peak_learning_rate"]
    names = [group.name for group in found.groups]
    assert names == ["schedule.peak_learning_rate=0.01", "schedule.peak_learning_rate=0.02"]
    best, other = found.groups
    assert best.label == "peak_learning_rate=0.01"
    spread = best.spread("bleu")
    scores = [bleu_score(with_noise(REFERENCES, 0.1, seed), REFERENCES).score for seed in (1, 2)]
    assert spread is not None
    assert sorted(spread.values) == pytest.approx(sorted(scores))
    assert [run.seed for run in best.runs] == sorted(
        "12", key=lambda seed: -scores[int(seed) - 1]
    )  # the best run first
    assert best.difference is None
    assert other.difference is not None
    other_spread = other.spread("bleu")
    assert other_spread is not None
    assert other.difference.difference == pytest.approx(other_spread.mean - spread.mean)
    assert other.difference.p < 0.01
    assert found.note == ""
    assert {run.parameters for run in found.runs} == {best.runs[0].parameters}
    assert (best.runs[0].parameters or 0) > 10_000
    assert (best.runs[0].flops, best.runs[0].seconds) == (1e9, 20.0)
    verdict = found.verdict()
    assert verdict.startswith("Best on validation: peak_learning_rate=0.01, BLEU ")
    assert "(2 seeds)" in verdict
    assert "significant over sentences, p < 0.001; above two standard errors over seeds" in verdict


def test_incomplete_runs_have_their_best_validation_so_far(sweep: Path) -> None:
    run = sweep / "rate=0.01,seed=1"
    final = read_json(run / "result.json")["valid"]["bleu"]
    (run / "result.json").unlink()
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as out:
        out.write('{"update": 12, "train/sec')  # of a run in progress
    with exclusive(run / ".lock", lambda: None):
        found = read_sweep(sweep)
    (running,) = [run for run in found.runs if run.status is Status.running]
    assert (running.score("bleu"), running.updates) == (pytest.approx(final), 10)
    assert running.score("test_bleu") is None
    assert series(running.records, "valid/bleu")[0] == [2, 4, 6, 8, 10]
    assert running.seconds == 20.0
    assert found.runs[-1] is running
    assert len(found.groups[0].complete) == 1
    assert "spread over seeds unknown" in found.verdict()
    assert count_statuses(found.runs) == "1 running, 3 complete"


def test_a_copy_of_a_run_is_not_counted(sweep: Path) -> None:
    verdict = read_sweep(sweep).verdict()
    copy = shutil.copytree(sweep / "rate=0.01,seed=1", sweep / "rate=0.01,seed=1 (copy)")
    config = swept_config(0.01, 1)
    free = replace(config, training=replace(config.training, num_threads=2))
    save_config(free, copy / "config.yaml")
    found = read_sweep(sweep)
    assert found.verdict() == verdict
    note = "same seed and settings as rate=0.01,seed=1; not counted"
    assert [(run.name, run.notes) for run in found.runs if run.notes] == [(copy.name, [note])]
    write_environment(copy, "toy-2")
    assert "(3 seeds)" in read_sweep(sweep).verdict()


def test_failed_runs_have_notes(sweep: Path) -> None:
    (sweep / "rate=0.02,seed=2" / "result.json").unlink()
    write_json(sweep / "rate=0.02,seed=2" / "failure.json", {"lines": ["a", "error: b\x1b"]})
    never = sweep / "rate=0.04"  # failed before its folder had a configuration
    write_json(never / "failure.json", {"lines": ["error: no space"]})
    found = read_sweep(sweep)
    notes = {run.name: (run.status, run.notes) for run in found.runs if run.notes}
    assert notes == {
        "rate=0.02,seed=2": ("failed", ["a", "error: b\\x1b"]),
        "rate=0.04": ("failed", ["error: no space"]),
    }
    assert [group.name for group in found.groups][-1] == "rate=0.04"
    assert found.groups[-1].values == {}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("result.json", "{", "Invalid JSON"),
        ("metrics.jsonl", "[]\n", "line 1 is not a JSON object"),
        ("config.yaml", "model: 7\n", "config.yaml"),
        ("environment.json", "{}", "environment.json: key run_id"),
        ("valid_hypotheses.txt", "\udcff", "is not valid UTF-8"),
    ],
)
def test_damaged_files_of_a_run_do_not_affect_the_others(
    sweep: Path, name: str, text: str, problem: str
) -> None:
    path = sweep / "rate=0.02,seed=1" / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    found = read_sweep(sweep)
    (run,) = [run for run in found.runs if run.notes]
    assert run.name == "rate=0.02,seed=1"
    assert problem in run.notes[0]
    assert found.groups[0].spread("bleu") is not None
    assert sum(len(group.complete) for group in found.groups) == 4 - (name == "result.json")


def test_a_damaged_tokenizer_does_not_end_the_report(sweep: Path) -> None:
    (sweep.parents[1] / "corpora" / "toy-1" / "tokenizer.model").write_bytes(b"damaged")
    found = read_sweep(sweep)
    assert {run.parameters for run in found.runs} == {None}
    assert all("tokenizer.model" in run.notes[0] for run in found.runs)


def test_differences_are_not_tested_without_one_validation_text(sweep: Path) -> None:
    run = sweep / "rate=0.02,seed=1"
    write_environment(run, "toy-2")
    assert read_sweep(sweep).note == ""  # another corpus with the same text
    text = PreparedCorpus(sweep.parents[1] / "corpora" / "toy-2").text_path("valid", "de")
    write_lines(text, [*REFERENCES[:-1], "other"])
    found = read_sweep(sweep)
    assert found.note == "the corpora of the runs have different validation texts"
    assert [group.difference for group in found.groups] == [None, None]
    assert "above peak_learning_rate=0.02 (above two standard errors" in found.verdict()
    write_environment(run, "toy-1")
    (run / "valid_hypotheses.txt").unlink()
    assert "has no valid_hypotheses.txt" in read_sweep(sweep).note
    for other in sweep.glob("rate*"):
        write_environment(other, "gone")
    assert read_sweep(sweep).note == "there is no corpus of the runs"


def test_sweep_without_complete_runs(tmp_path: Path) -> None:
    assert read_sweep(tmp_path).verdict() == "No run is complete."
    add_run(tmp_path / "all", swept_config(0.1, 1), is_complete=False)
    found = read_sweep(tmp_path)
    assert [group.name for group in found.groups] == ["all"]
    assert found.verdict() == "No run is complete."


def test_swept_keys_are_those_that_change_a_result() -> None:
    one = {"model.width": 8, "training.seed": 1, "training.num_threads": 1, "run.name": "a"}
    other = {"model.width": 9, "training.seed": 2, "training.num_threads": 2, "run.name": "b"}
    assert swept_keys([one, other]) == ["model.width"]
    size = "batching.tokens_per_micro_batch"  # `auto` finds another one for each seed
    assert swept_keys([{**one, size: 100}, {**one, "training.seed": 3, size: 101}]) == []
    assert swept_keys([{**one, "model.bias": True}, one]) == ["model.bias"]


def test_values_are_formatted_as_they_are_written() -> None:
    values = [0.00175, 1e-5, 0, True, False, "", ["a", 1], []]
    expected = "0.00175 1e-05 0 true false none a,1 none"
    assert " ".join(map(format_value, values)) == expected
