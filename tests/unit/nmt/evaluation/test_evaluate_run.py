"""Evaluation of completed runs, with a tiny model with random weights."""

from dataclasses import replace
from pathlib import Path

from nmt.base.files import read_json, read_lines
from nmt.config import CorpusConfig, save_config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.baseline import NO_BASELINE
from nmt.evaluation.evaluate import Evaluation, corpus_test_set, evaluate_run
from nmt.run_folder import Run
from nmt.trained_model import save_trained_model
from nmt.translation.translator import Translator
from tests.support import (
    made_up_sentences,
    tiny_config,
    tiny_trained_model,
    write_corpus,
    write_environment,
    write_result,
)

PAIRS = list(zip(made_up_sentences(6, 1), made_up_sentences(6, 2), strict=True))


def complete(
    outputs: Path, corpus: PreparedCorpus, name: str, bleu: float, **training: str
) -> list[Evaluation]:
    """Write a completed run folder and evaluate the run."""
    config = replace(tiny_config(outputs, **training), corpus=CorpusConfig(name="toy"))
    config = replace(config, run=replace(config.run, name=name))
    model = tiny_trained_model(corpus.source_tokenizer, seed=len(name))
    run = config.run_folder
    run.mkdir(parents=True)
    save_config(config, run / "config.yaml")
    write_environment(run, corpus.folder.name)
    tests = [corpus_test_set(corpus, "test")]
    evaluations = evaluate_run(model, model.config.decoding, corpus, Run(run), tests)
    save_trained_model(model, run / "model", {})
    write_result(run, bleu)
    return evaluations


def test_run_is_compared_with_the_best_earlier_run(tmp_path: Path, tokenizer_path: Path) -> None:
    splits = {"train": PAIRS, "valid": PAIRS[:2], "test": PAIRS}
    corpus = PreparedCorpus(write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, splits))
    first = complete(tmp_path, corpus, "one", 20)
    assert [e.test_set.name for e in first] == ["test"]
    assert {e.not_compared for e in first} == {NO_BASELINE}
    complete(tmp_path, corpus, "number", 10)
    third = complete(tmp_path, corpus, "three", 30)
    assert [e.comparison.baseline for e in third if e.comparison] == ["one"]
    folder = tmp_path / "runs" / "three" / "evaluation" / "test"
    table = read_json(folder / "scores.json")
    assert set(table.pop("files")) == {path.name for path in folder.iterdir()}
    assert table == third[0].to_json()
    assert table["baseline"]["bleu"]["baseline"] == first[0].scores.bleu.score
    assert read_lines(folder / "hypotheses.txt") == third[0].hypotheses
    assert read_lines(folder / "baseline.txt") == first[0].hypotheses
    # A baseline without translations is reported.
    (folder / "hypotheses.txt").unlink()
    (found,) = complete(tmp_path, corpus, "last", 10)
    assert found.comparison is None
    assert found.not_compared.startswith("three has no translations of this test set")
    assert "baseline" not in found.to_json()


def test_a_run_is_compared_with_the_model_that_it_was_trained_from(
    tmp_path: Path, tokenizer_path: Path
) -> None:
    splits = {"train": PAIRS * 5, "valid": PAIRS, "test": PAIRS}
    corpus = PreparedCorpus(write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, splits))
    original = tiny_trained_model(tokenizer_path, seed=9)
    save_trained_model(original, tmp_path / "original", {})
    complete(tmp_path, corpus, "other", 20)
    initial = str(tmp_path / "original")
    (found,) = complete(tmp_path, corpus, "adapted", 30, initial_model=initial)
    assert found.comparison is not None
    assert found.comparison.baseline == "original"
    translated = Translator(original).translate(found.test_set.sources)
    assert found.comparison.hypotheses == [best.text for best, *_ in translated]
    # Terms are words of the training text that the original model does not use on `valid`.
    assert found.comparison.terms is not None
    assert found.comparison.terms.baseline == 0.0
    (tmp_path / "original" / "weights.safetensors").write_bytes(b"damaged")
    (found,) = complete(tmp_path, corpus, "again", 30, initial_model=initial)
    assert "original has no translations of this test set" in found.not_compared
