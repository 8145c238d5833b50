"""What a run ends with, on a tiny model with random weights."""

from dataclasses import replace
from pathlib import Path

from nmt.config import CorpusConfig, save_config
from nmt.data.corpus import PreparedCorpus
from nmt.decoding.translator import Translator
from nmt.evaluation.evaluate import Evaluation, evaluate_run
from nmt.evaluation.systems import NO_BASELINE
from nmt.files import read_json, read_lines, write_json
from nmt.trained_model import save_trained_model
from tests.support import made_up_sentences, tiny_config, tiny_trained_model, write_corpus

PAIRS = list(zip(made_up_sentences(6, 1), made_up_sentences(6, 2), strict=True))


def complete(outputs: Path, corpus: PreparedCorpus, name: str, bleu: float) -> list[Evaluation]:
    """A run with everything in its folder that training leaves there."""
    config = replace(tiny_config(outputs), corpus=CorpusConfig(name="toy"))
    config = replace(config, run=replace(config.run, name=name))
    model = tiny_trained_model(corpus.source_tokenizer, seed=len(name))
    run = config.run_folder
    run.mkdir(parents=True)
    save_config(config, run / "config.yaml")
    write_json(run / "environment.json", {"corpus": corpus.folder.name})
    translator = Translator(model, model.config.decoding)
    evaluations = evaluate_run(translator, corpus, config, lambda text: None)
    save_trained_model(model, run / "model", {})
    write_json(run / "result.json", {"valid": {"bleu": bleu, "loss": 1.0}})
    return evaluations


def test_each_run_is_compared_with_the_best_before_it(tmp_path: Path, tokenizer_path: Path) -> None:
    splits = {"train": PAIRS, "valid": PAIRS[:2], "test": PAIRS}
    folder = write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, splits)
    corpus = PreparedCorpus(folder)
    first = complete(tmp_path, corpus, "one", 20)
    assert [e.test_set.name for e in first] == ["test"]
    assert {e.not_compared for e in first} == {NO_BASELINE}
    complete(tmp_path, corpus, "number", 10)
    third = complete(tmp_path, corpus, "three", 30)
    assert [e.comparison.baseline for e in third if e.comparison] == ["one"]
    place = tmp_path / "runs" / "three" / "evaluation" / "test"
    table = read_json(place / "scores.json")
    assert table == third[0].to_json()
    assert table["baseline"]["bleu"]["baseline"] == first[0].scores.bleu.score
    assert read_lines(place / "hypotheses.txt") == third[0].hypotheses


def test_a_baseline_without_translations_of_a_set_is_told(
    tmp_path: Path, tokenizer_path: Path
) -> None:
    splits = {"train": PAIRS, "valid": PAIRS[:2], "test": PAIRS}
    folder = write_corpus(tmp_path / "corpora" / "toy-1", tokenizer_path, splits)
    corpus = PreparedCorpus(folder)
    complete(tmp_path, corpus, "one", 20)
    (tmp_path / "runs" / "one" / "evaluation" / "test" / "hypotheses.txt").unlink()
    (found,) = complete(tmp_path, corpus, "two", 10)
    assert found.comparison is None
    assert found.not_compared.startswith("one has no translations of this text")
    assert "baseline" not in found.to_json()
