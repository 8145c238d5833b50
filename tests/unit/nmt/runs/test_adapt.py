from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import Config, CorpusConfig, SourceConfig
from nmt.data.corpus import PreparedCorpus
from nmt.evaluation.evaluate import TestSet
from nmt.runs.adapt import _test_sets, check_languages, general_test_set, summary_lines
from tests.support import tiny_config, write_corpus


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A folder with training text and a test set, English and French."""
    folder = tmp_path / "text"
    for language in ("en", "fr"):
        write_lines(folder / f"train.{language}", ["a", "b"])
        write_lines(folder / f"news.{language}", [f"one {language}", f"two {language}"])
    return folder


def config_with(general: Path | None, tmp_path: Path) -> Config:
    sources = {"general": SourceConfig(path=str(general))} if general else {}
    config = Config(corpus=CorpusConfig(direction="en-fr", sources=sources))
    return replace(config, run=replace(config.run, outputs=str(tmp_path)))


def test_text_in_other_languages_is_refused_before_training(text: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    for data in (text, text / "train"):
        check_languages(data, ("en", "fr"), model)
        with pytest.raises(
            UserError, match=r"no file of the language de, only en, fr, but .*en-de"
        ):
            check_languages(data, ("en", "de"), model)
    (text / "train.en").rename(text / "train.en.gz")
    check_languages(text, ("en", "fr"), model)
    for data in (text / "news.en", tmp_path / "missing", tmp_path / "missing" / "news"):
        check_languages(data, ("en", "de"), model)  # the source of the corpus refuses or reads it


def test_the_general_test_set_is_that_of_the_general_text_unless_one_is_named(
    text: Path, tmp_path: Path
) -> None:
    write_lines(text / "news.fr.1", ["un", "deux"])
    found = general_test_set(config_with(text, tmp_path), "")
    references = [["one fr", "two fr"], ["un", "deux"]]
    assert found == TestSet("general_news", ("en", "fr"), ["one en", "two en"], references)
    named = general_test_set(config_with(None, tmp_path), str(text / "train"))
    assert named is not None
    assert (named.name, named.references) == ("general_train", [["a", "b"]])
    assert general_test_set(config_with(None, tmp_path), "") is None
    assert general_test_set(config_with(text / "train", tmp_path), "") is None
    for language in ("en", "fr"):
        (text / f"news.{language}").rename(text / f"test.{language}")
        write_lines(text / f"held_out.{language}", ["a"])
    found = general_test_set(config_with(text, tmp_path), "")
    assert found is not None
    assert found.name == "general_test"


def test_test_sets_have_different_names(tmp_path: Path, tokenizer_path: Path) -> None:
    pairs = [("1 2", "2 1")]
    splits = dict.fromkeys(("train", "valid", "test", "general_test"), pairs)
    corpus = PreparedCorpus(write_corpus(tmp_path / "corpus", tokenizer_path, splits))
    general = TestSet("general_test", ("en", "de"), ["3"], [["3"]])
    found = {
        test_set.name: test_set.sources
        for test_set in _test_sets(tiny_config(tmp_path), corpus, general)
    }
    own = {"test": ["1 2"], "general_test": ["1 2"]}
    assert found == own | {"general_general_test": ["3"]}
    assert [test_set.name for test_set in _test_sets(tiny_config(tmp_path), corpus, None)] == list(
        own
    )


def test_the_last_lines_have_the_scores_before_and_after() -> None:
    found = {"baseline": 20.0, "difference": 11.5, "p_bootstrap": 0.01, "p_randomisation": 0.0}
    before = {key: {**found, "verdict": "better"} for key in ("bleu", "chrf")}
    scores = {"bleu": {"score": 31.5}, "chrf": {"score": 31.5}, "baseline": before}
    line = "test {}: 20.00 before, 31.50 after, +11.50, p 0.010, better"
    assert list(summary_lines("test", scores)) == [line.format("BLEU"), line.format("chrF2++")]
    assert list(summary_lines("x", {})) == ["x: not compared with the original model"]
