import random
from dataclasses import replace
from pathlib import Path

import pytest

from data_prep import held_out, manifest
from data_prep.clean import Pair, score_of
from data_prep.held_out import HeldOutSource
from data_prep.manifest import FactsCache
from data_prep.prepare import find_prepared
from data_prep.protocol import Source
from data_prep.sources import open_corpus
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.config import CleaningConfig, CorpusConfig, CorpusSource
from nmt.data.corpus import PreparedCorpus
from tests.unit.data_prep.conftest import Toy, sentences, write_pairs


def made_up_pairs(count: int) -> list[Pair]:
    pairs = zip(sentences("en", count, 1), sentences("de", count, 2), strict=True)
    return [Pair(f"{number} {source}", target) for number, (source, target) in enumerate(pairs)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "my text.tsv"
    write_lines(path, map("\t".join, made_up_pairs(200)))
    return path


def opened(path: Path, messages: list[str] | None = None, **cleaning: float) -> Source:
    config = CorpusConfig(
        name="own",
        source=CorpusSource.folder,
        path=str(path),
        cleaning=CleaningConfig(**cleaning),
    )
    report = ([] if messages is None else messages).append
    return open_corpus(config, path.parent, FactsCache(path.parent / "facts.json"), report)[0]


def contents(source: Source) -> dict[str, list[Pair]]:
    return {split: list(source.pairs(split)) for split in source.splits()}


def test_a_table_is_split_into_disjoint_sets_that_cover_it(table: Path) -> None:
    messages: list[str] = []
    source = opened(table, messages)
    splits = contents(source)
    assert list(splits) == ["train", "valid", "test"]
    assert [len(pairs) for pairs in splits.values()] == [180, 10, 10]
    together = [pair for pairs in splits.values() for pair in pairs]
    assert sorted(together) == sorted(made_up_pairs(200))
    assert [source.num_pairs(split) for split in ("valid", "test")] == [10, 10]
    assert messages[1:] == ["pairs held out from the training text: 10 as valid and 10 as test"]


def test_a_pair_is_in_the_same_split_whatever_the_order(table: Path) -> None:
    def splits() -> dict[str, list[Pair]]:
        return {split: sorted(pairs) for split, pairs in contents(opened(table)).items()}

    before, pairs = splits(), made_up_pairs(200)
    random.Random(3).shuffle(pairs)
    write_lines(table, map("\t".join, pairs))
    assert splits() == before


def test_a_held_out_sentence_is_in_no_other_split(table: Path) -> None:
    """Neither with another translation, nor twice, nor with other white space."""
    pairs = made_up_pairs(200)
    more = [Pair(f" {source} ", f"oder {target}") for source, target in pairs]
    write_lines(table, map("\t".join, pairs + more + pairs))
    splits = contents(opened(table))
    sources = {split: {pair.source.strip() for pair in pairs} for split, pairs in splits.items()}
    assert not sources["valid"] & sources["test"]
    assert not sources["train"] & (sources["valid"] | sources["test"])
    for split in ("valid", "test"):
        assert len(splits[split]) == len(set(splits[split])) == 2 * len(sources[split])


def test_only_pairs_that_pass_the_cleaning_rules_are_held_out(table: Path) -> None:
    bad = [Pair(f"{number} no translation", "") for number in range(400)]
    write_lines(table, map("\t".join, bad + made_up_pairs(200)))
    splits = contents(opened(table))
    assert all(target for split in ("valid", "test") for _, target in splits[split])
    assert (len(splits["train"]), len(splits["test"])) == (580, 10)


@pytest.mark.parametrize("candidates", [1, 30, 150])
def test_the_number_of_candidates_changes_nothing(
    table: Path, candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = [Pair(f"{number} no translation", "") for number in range(400)]
    write_lines(table, map("\t".join, bad + made_up_pairs(200)))
    monkeypatch.setattr(held_out, "MAX_PAIRS", 5)
    expected = contents(opened(table))
    monkeypatch.setattr(held_out, "_NUM_CANDIDATES", candidates)
    assert contents(opened(table)) == expected
    assert [len(pairs) for pairs in expected.values()] == [590, 5, 5]


def test_pairs_with_a_low_score_are_neither_held_out_nor_kept(table: Path) -> None:
    pairs = made_up_pairs(200)
    write_lines(table, ["\t".join((*pair, str(n / 200))) for n, pair in enumerate(pairs)])
    source = opened(table, min_score=0.5)
    assert {score_of(pair) for pair in source.pairs("train")} < {n / 200 for n in range(200)}
    held_out = {pair for name in ("valid", "test") for pair in source.pairs(name)}
    assert held_out < set(pairs[100:])
    assert any(pair in pairs[:100] for pair in opened(table).pairs("valid"))


def test_too_few_sentences_are_refused(table: Path) -> None:
    write_lines(table, ["a b c\td e f", "g h i\tj k l"])
    with pytest.raises(UserError, match=r"2 different sentences .* hold out valid and test"):
        contents(opened(table))


@pytest.mark.parametrize("name", ["train", "europarl"])
def test_a_folder_with_one_split_is_training_text(tmp_path: Path, name: str, table: Path) -> None:
    folder = tmp_path / "aligned"
    write_pairs(folder, name, *zip(*made_up_pairs(200), strict=True))
    assert contents(opened(folder)) == contents(opened(table))


def test_a_folder_with_a_test_set_keeps_it(toy: Toy) -> None:
    for language in ("en", "de"):
        (toy.raw / f"valid.{language}").unlink()
    source = opened(toy.raw)
    assert isinstance(source, HeldOutSource)
    assert source.splits() == ["train", "valid", "test"]
    assert source.num_pairs("test") == len(list(source.pairs("test"))) == 4
    assert len(list(source.pairs("valid"))) == 10


def test_a_prepared_table_has_all_splits(table: Path, toy: Toy) -> None:
    own = {"name": "own", "path": str(table)}
    folder = toy.prepare(**own)
    assert find_prepared(replace(toy.config, **own), toy.tokenizer, toy.outputs) == folder
    corpus = PreparedCorpus(folder)
    assert corpus.test_splits == ["test"]
    assert len(corpus.read_text("valid")[0]) == len(corpus.read_text("test")[1]) == 10
    assert len(corpus.train()) == 180
    back = replace(toy.config, **own, direction="de-en")
    assert find_prepared(back, toy.tokenizer, toy.outputs) is None


def test_looking_for_a_corpus_stores_nothing(
    table: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_SETTLED_SECONDS", -10.0)  # facts are kept at once
    own = replace(toy.config, name="own", path=str(table))
    assert find_prepared(own, toy.tokenizer, toy.outputs) is None
    assert not toy.outputs.exists()
