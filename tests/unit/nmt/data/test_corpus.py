from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nmt.base.errors import UserError
from nmt.base.files import write_json
from nmt.data.corpus import (
    ParallelCorpus,
    PreparedCorpus,
    more_reference_paths,
    shard_name,
    write_shard,
)

Pair = tuple[list[int], list[int]]


def some_pairs(count: int, seed: int = 0) -> list[Pair]:
    random = np.random.default_rng(seed)
    draw = lambda: random.integers(0, 500, random.integers(0, 9)).tolist()  # noqa: E731
    return [(draw(), draw()) for _ in range(count)]


def test_written_shards_are_read_back_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    pairs = some_pairs(57)
    write_shard(tmp_path / shard_name("train-more", 0), [([2], [2])])  # of another split
    for index, part in ((10, pairs[20:]), (2, pairs[20:20]), (0, pairs[:20])):
        number = write_shard(tmp_path / shard_name("train", index), iter(part), rows_per_batch=7)
        assert number == len(part)
    corpus = ParallelCorpus(tmp_path, "train")
    assert len(corpus) == 57
    assert [tuple(side.tolist() for side in corpus.pair(i)) for i in range(57)] == pairs
    assert corpus.source_lengths.tolist() == [len(source) + 1 for source, _ in pairs]
    assert corpus.target_lengths.tolist() == [len(target) + 1 for _, target in pairs]


@pytest.mark.parametrize("damage", ["cut", "empty", "other"])
def test_a_damaged_shard_is_reported(tmp_path: Path, damage: str) -> None:
    path = tmp_path / shard_name("train", 0)
    write_shard(path, some_pairs(100))
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "other": b"no arrow"}[damage])
    with pytest.raises(UserError, match=str(path)):
        ParallelCorpus(tmp_path, "train")


def test_a_failed_write_leaves_no_shard(tmp_path: Path) -> None:
    def failing() -> object:
        yield [1], [1]
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        write_shard(tmp_path / "train-00000.arrow", failing())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_prepared_corpus_is_read(digit_corpus: Path) -> None:
    corpus = PreparedCorpus(digit_corpus)
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert corpus.source_tokenizer == corpus.target_tokenizer == digit_corpus / "tokenizer.model"
    assert corpus.test_splits == ["test"]
    assert len(corpus.train()) == 300
    sources, references = corpus.read_text("valid")
    assert [" ".join(reversed(source.split())) for source in sources] == references
    assert corpus.annotations_path("test") is None


MANIFEST = {
    "direction": "en-de",
    "source_tokenizer": "tokenizer.model",
    "target_tokenizer": "tokenizer.model",
    "test_splits": ["zoo", "riddle", "test"],
}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "Input should be an object"),
        ([], "Input should be an object"),
        ({}, "key direction: Field required"),
        ({**MANIFEST, "direction": "en"}, "direction='en' is not two language codes"),
        ({**MANIFEST, "direction": "../en-de"}, "direction='../en-de' is not two language codes"),
        ({**MANIFEST, "direction": 3}, "key direction: .* valid string"),
        ({**MANIFEST, "test_splits": None}, "key test_splits: .* valid array"),
        ({**MANIFEST, "test_splits": ["../a"]}, "test_splits: '../a' is not a plain name"),
        ({**MANIFEST, "test_splits": ["a\x1b[2J"]}, r"test_splits: 'a.x1b\[2J' is not a plain"),
        ({**MANIFEST, "leakage": {"test": None}}, "key leakage.test: .* an object"),
    ],
)
def test_an_invalid_manifest_is_reported(tmp_path: Path, manifest: Any, message: str) -> None:
    path = tmp_path / "manifest.json"
    write_json(path, manifest)
    with pytest.raises(UserError, match=f"{path}: {message}"):
        PreparedCorpus(tmp_path)


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write_json(folder / "manifest.json", {**MANIFEST, "source_tokenizer": "../secret"})
    (tmp_path / "secret").touch()
    (folder / "text").mkdir()
    for name in ("tokenizer.model", "train-00000.arrow", "text/test.en"):
        (folder / name).symlink_to(tmp_path / "secret")
    corpus = PreparedCorpus(folder)
    assert corpus.test_splits == ["test", "riddle", "zoo"]  # `test` is the first
    for read in (
        lambda: corpus.source_tokenizer,
        lambda: corpus.target_tokenizer,
        corpus.train,
        lambda: corpus.read_text("test"),
    ):
        with pytest.raises(UserError, match=r"leads out of its folder|not a plain file name"):
            read()


def test_shards_with_other_columns_are_rejected(tmp_path: Path) -> None:
    schema = pa.schema([("source", pa.list_(pa.int64())), ("target", pa.list_(pa.int32()))])
    path = tmp_path / "train-00000.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([[[1]], [[2]]], schema=schema))
    with pytest.raises(UserError, match=f"{path}: has other columns; prepare the corpus again"):
        ParallelCorpus(tmp_path, "train")


def test_sources_have_as_many_pairs_as_the_training_text(tmp_path: Path) -> None:
    write_shard(tmp_path / "train-00000.arrow", [([1], [2])])
    for more in ({}, {"sources": {"a": 1}}, {"sources": {"a": 1, "b": 0}}):
        write_json(tmp_path / "manifest.json", {**MANIFEST, **more})
        assert len(PreparedCorpus(tmp_path).train()) == 1
    write_json(tmp_path / "manifest.json", {**MANIFEST, "sources": {"a": 1, "b": 1}})
    with pytest.raises(UserError, match="sources have 2 pairs, but the training text has 1"):
        PreparedCorpus(tmp_path).train()


def test_a_missing_folder_has_no_further_references(tmp_path: Path) -> None:
    assert more_reference_paths(tmp_path / "no" / "a.de") == []


def test_missing_folders_and_splits_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{tmp_path}: has no train-\*\.arrow"):
        ParallelCorpus(tmp_path, "train")
    with pytest.raises(UserError, match="no such file"):
        PreparedCorpus(tmp_path / "nowhere")
