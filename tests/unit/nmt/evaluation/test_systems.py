import os
import shutil
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_json, write_lines
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.baseline import find_baseline
from nmt.evaluation.evaluate import TestSet, stored_hypotheses
from nmt.evaluation.systems import open_system
from nmt.run_folder import Run
from tests.support import write_environment, write_result


def add_corpus(outputs: Path, name: str, valid: str = "ein Satz") -> PreparedCorpus:
    folder = outputs / "corpora" / name
    manifest = {
        "direction": "en-de",
        "source_tokenizer": "tokenizer.model",
        "target_tokenizer": "tokenizer.model",
        "test_splits": ["test"],
    }
    write_json(folder / "manifest.json", manifest)
    write_lines(folder / "text" / "valid.de", [valid])
    return PreparedCorpus(folder)


def add_run(
    run: Path, bleu: float, corpus: str = "toy-1", direction: str = "en-de", **more: float
) -> Path:
    """Write a completed run, one second newer than the previous one."""
    languages = zip(("source_language", "target_language"), direction.split("-"), strict=True)
    write_lines(run / "model" / "config.yaml", [f"{key}: {code}" for key, code in languages])
    write_lines(run / "model" / "weights.safetensors", [""])
    name = corpus.partition("-")[0]
    write_lines(run / "config.yaml", [f"corpus: {{name: {name}, direction: {direction}}}"])
    write_environment(run, corpus)
    bleu_of_test = {"score": 0.0, "signature": "", **more}
    write_result(run, bleu, test_sets={"test": {"bleu": bleu_of_test, "sentences": 1}})
    time = 1_000_000 + len(list(run.parents[1].rglob("result.json")))
    os.utime(run / "result.json", (time, time))
    return run


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return tmp_path / "outputs"


def baseline_of(run: Path, corpus: PreparedCorpus) -> tuple[str, str] | None:
    """Return name and reason of the baseline of a run."""
    found = find_baseline(Run(run), corpus)
    return (found.system.name, found.why) if found else None


def test_baseline_is_chosen_by_validation_score(outputs: Path) -> None:
    corpus = add_corpus(outputs, "toy-1")
    add_run(outputs / "runs/a", 20, score=99.0)
    add_run(outputs / "runs/b", 30, score=1.0)
    add_run(outputs / "runs/c", 25, score=50.0)
    why = "best on validation (BLEU {}.00) of {} comparable runs on toy en-de"
    assert baseline_of(outputs / "runs/new", corpus) == ("b", why.format(30, 3))
    run = add_run(outputs / "sweeps/rates/rate=0.1", 40)
    assert Run(run).outputs == Run(outputs / "runs/a").outputs == outputs
    assert baseline_of(outputs / "runs/new", corpus) == ("b", why.format(30, 3))
    # Runs of sweeps are no baseline, not even of each other.
    found = baseline_of(outputs / "sweeps/rates/rate=0.2", corpus)
    assert found == ("b", why.format(30, 3))


def test_the_initial_model_is_the_baseline(outputs: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus = add_corpus(outputs, "toy-1")
    add_run(outputs / "runs/a", 20)
    run = add_run(outputs / "runs/b", 30)
    model = outputs / "imports" / "public"
    with (run / "config.yaml").open("a") as out:
        out.write(f"training: {{initial_model: {model}}}\n")
    assert baseline_of(run, corpus) == ("a", "the only comparable run on toy en-de")
    assert "the initial model is not compared with this run" in caplog.text
    shutil.copytree(run / "model", model)
    assert baseline_of(run, corpus) == ("public", "the model that this run was trained from")
    assert Run(run).outputs == Run(outputs / "runs/a").outputs == outputs


def test_only_earlier_completed_runs_of_the_same_corpus_are_considered(
    outputs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = add_corpus(outputs, "toy-1")
    add_corpus(outputs, "toy-2", valid="another text")
    only = add_run(outputs / "runs/only", 10)
    own = add_run(outputs / "runs/own", 20)
    add_run(outputs / "runs/later", 90)
    add_run(outputs / "runs/other_way", 91, direction="de-en")
    add_run(outputs / "runs/other_name", 92, corpus="books-1")
    add_run(outputs / "runs/other_text", 93, corpus="toy-2")
    (add_run(outputs / "runs/unfinished", 94) / "result.json").unlink()
    (add_run(outputs / "runs/damaged", 95) / "config.yaml").write_text("{")
    for name, text in {
        "cut": '{"valid"',
        "empty": "{}",
        "no_number": '{"valid": {"bleu": []}}',
    }.items():
        (add_run(outputs / "runs" / name, 96) / "result.json").write_text(text)
    model = add_run(outputs / "runs/model", 97) / "model/config.yaml"
    model.write_text("source_language: de")
    earlier = (
        *("other_way", "other_name", "other_text", "damaged", "cut", "empty", "no_number"),
        "model",
    )
    for name in earlier:
        os.utime(outputs / "runs" / name / "result.json", (5, 5))
    assert baseline_of(own, corpus) == ("only", "the only comparable run on toy en-de")
    warned = [message.partition(" ")[0] for message in caplog.messages]
    assert warned == [f"{outputs}/runs/{name}" for name in ("cut", "damaged", "empty", "no_number")]
    assert baseline_of(only, corpus) is None


def test_corpus_with_other_subwords_is_the_same(outputs: Path) -> None:
    corpus = add_corpus(outputs, "toy-1")
    add_corpus(outputs, "toy-3")
    add_run(outputs / "runs/a", 20, corpus="toy-3")
    # The text of a deleted corpus is unknown.
    add_run(outputs / "runs/b", 30, corpus="toy-4")
    found = baseline_of(outputs / "runs/new", corpus)
    assert found == ("a", "the only comparable run on toy en-de")


def test_other_seeds_are_not_considered(outputs: Path) -> None:
    corpus = add_corpus(outputs, "toy-1")

    def add_seed(name: str, bleu: float, **training: float) -> Path:
        run = add_run(outputs / "runs" / name, bleu)
        values = ", ".join(f"{key}: {value}" for key, value in training.items())
        with (run / "config.yaml").open("a") as out:
            out.write(f"training: {{{values}}}\nrun: {{name: {name}}}\n")
        return run

    add_seed("a_seed1", 30, seed=1, patience=8, num_threads=1)
    second = add_seed("a_seed2", 31, seed=2, patience=8, num_threads=2)
    assert baseline_of(second, corpus) is None
    add_seed("b_seed1", 20, seed=1, patience=9)
    third = add_seed("a_seed3", 32, seed=3, patience=8)
    assert baseline_of(third, corpus) == ("b_seed1", "the only comparable run on toy en-de")


def test_open_run_or_model_folder(outputs: Path) -> None:
    run = add_run(outputs / "runs/a", 20)
    assert open_system(run) == open_system(run / "model")
    (outputs / "latest").symlink_to("runs/a")
    assert open_system(outputs / "latest" / "model").name == "a"
    copy = outputs.parent / "copy"
    (run / "model").rename(copy)
    assert (open_system(copy).name, open_system(copy).run) == ("copy", None)
    with pytest.raises(UserError, match="neither a model folder nor a run folder with a model"):
        open_system(run)


def test_stored_translations_require_the_same_text(outputs: Path) -> None:
    run = add_run(outputs / "runs/a", 20)
    folder = run / "evaluation" / "test"

    def stored(source: str, *references: str) -> list[str] | None:
        texts = [[line] for line in references]
        return stored_hypotheses(open_system(run), TestSet("test", ("en", "de"), [source], texts))

    assert stored("s", "r") is None
    for name, line in {"source": "s", "reference": "r", "hypotheses": "h"}.items():
        write_lines(folder / f"{name}.txt", [line])
    assert stored("s", "r") == ["h"]
    assert stored("s2", "r") is stored("s", "r2") is stored("s", "r", "r2") is None
    write_lines(folder / "hypotheses.txt", ["h", "extra line"])
    assert stored("s", "r") is None
