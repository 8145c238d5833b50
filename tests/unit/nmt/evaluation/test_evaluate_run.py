"""Evaluation of completed runs, with a tiny model with random weights."""

from dataclasses import replace
from pathlib import Path

from nmt.base.files import read_json, read_lines
from nmt.config import CorpusConfig, save_config
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.evaluate import Evaluation, evaluate_run
from nmt.evaluation.systems import NO_BASELINE
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


def complete(outputs: Path, corpus: PreparedCorpus, name: str, bleu: float) -> list[Evaluation]:
    """Write a completed run folder and evaluate the run."""
    config = replace(tiny_config(outputs), corpus=CorpusConfig(name="toy"))
    config = replace(config, run=replace(config.run, name=name))
    model = tiny_trained_model(corpus.source_tokenizer, seed=len(name))
    run = config.run_folder
    run.mkdir(parents=True)
    save_config(config, run / "config.yaml")
    write_environment(run, corpus.folder.name)
    translator = Translator(model, model.config.decoding)
    evaluations = evaluate_run(translator, corpus, Run(run))
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
    # A baseline without translations is reported.
    (folder / "hypotheses.txt").unlink()
    (found,) = complete(tmp_path, corpus, "last", 10)
    assert found.comparison is None
    assert found.not_compared.startswith("three has no translations of this test set")
    assert "baseline" not in found.to_json()
