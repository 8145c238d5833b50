from pathlib import Path

import numpy as np
import pytest

from nmt.data.corpus import ParallelCorpus, PreparedCorpus, shard_name, write_shard
from nmt.errors import UserError
from nmt.files import write_json

Pair = tuple[list[int], list[int]]


def some_pairs(count: int, seed: int = 0) -> list[Pair]:
    random = np.random.default_rng(seed)
    draw = lambda: random.integers(0, 500, random.integers(0, 9)).tolist()  # noqa: E731
    return [(draw(), draw()) for _ in range(count)]


def test_what_is_written_is_read_back_over_shards_and_batches(tmp_path: Path) -> None:
    pairs = some_pairs(57)
    for index, part in enumerate((pairs[:20], pairs[20:20], pairs[20:])):
        number = write_shard(tmp_path / shard_name("train", index), iter(part), rows_per_batch=7)
        assert number == len(part)
    corpus = ParallelCorpus.open(tmp_path, "train")
    assert len(corpus) == 57
    assert [tuple(side.tolist() for side in corpus.pair(i)) for i in range(57)] == pairs
    assert corpus.source_lengths.tolist() == [len(source) + 1 for source, _ in pairs]
    assert corpus.target_lengths.tolist() == [len(target) + 1 for _, target in pairs]


def test_shards_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for index in (10, 2, 0):
        write_shard(tmp_path / shard_name("train", index), [([index], [index])])
    corpus = ParallelCorpus.open(tmp_path, "train")
    assert [int(corpus.pair(i)[0][0]) for i in range(3)] == [0, 2, 10]


def test_splits_do_not_mix(tmp_path: Path) -> None:
    write_shard(tmp_path / shard_name("train", 0), [([1], [1])])
    write_shard(tmp_path / shard_name("train-more", 0), [([2], [2])])
    assert len(ParallelCorpus.open(tmp_path, "train")) == 1


def test_a_missing_split_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{tmp_path}: holds no train-\*\.arrow"):
        ParallelCorpus.open(tmp_path, "train")


@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_shard_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / shard_name("train", 0)
    write_shard(path, some_pairs(100))
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "other": b"no arrow"}[damage])
    with pytest.raises(UserError, match=str(path)):
        ParallelCorpus.open(tmp_path, "train")


def test_a_failed_write_leaves_no_shard(tmp_path: Path) -> None:
    def failing() -> object:
        yield [1], [1]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_shard(tmp_path / "train-00000.arrow", failing())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_prepared_folder_is_read(digit_corpus: Path) -> None:
    corpus = PreparedCorpus(digit_corpus)
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert corpus.source_tokenizer == corpus.target_tokenizer == digit_corpus / "tokenizer.model"
    assert corpus.test_splits == ["test"]
    assert len(corpus.train()) == 300
    sources, references = corpus.read_text("valid")
    assert [" ".join(reversed(source.split())) for source in sources] == references
    assert not corpus.annotations_path("test").exists()


def test_test_comes_first_among_the_test_sets(tmp_path: Path) -> None:
    manifest = {
        "direction": "en-de",
        "source_tokenizer": "a",
        "target_tokenizer": "b",
        "test_splits": ["zoo", "riddle", "test"],
    }
    write_json(tmp_path / "manifest.json", manifest)
    assert PreparedCorpus(tmp_path).test_splits == ["test", "riddle", "zoo"]


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"direction": "en"}', '{"direction": 3}'])
def test_a_folder_that_is_no_corpus_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=str(tmp_path / "manifest.json")):
        PreparedCorpus(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        PreparedCorpus(tmp_path / "nowhere")
