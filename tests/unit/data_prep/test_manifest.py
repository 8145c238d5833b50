import os
from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import pytest

from data_prep import manifest, text_files
from data_prep.manifest import (
    FactsCache,
    damage,
    describe_outputs,
    fingerprint,
    read_facts,
    write_record_of,
)
from data_prep.readers import AlignedFiles
from data_prep.table_reader import TableReader
from nmt.base.errors import UserError
from nmt.config import CorpusConfig, CorpusSource


def test_a_fingerprint_depends_on_values_not_on_order() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint("x")) == 12


def test_facts_are_cached_until_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    path.write_text("one\n")
    first = FactsCache(cache).facts(path)
    assert not cache.exists()  # the file may still change within the precision of its time
    monkeypatch.setattr(manifest, "_SETTLED_SECONDS", -10.0)
    FactsCache(cache).facts(path)
    read = Mock(side_effect=read_facts)
    monkeypatch.setattr(manifest, "read_facts", read)
    assert FactsCache(cache).facts(path) == first
    assert not read.called
    path.write_text("two\n")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert FactsCache(cache).facts(path) != first
    read.assert_called_once_with(path, False)


def test_lines_of_a_cached_file_are_checked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    monkeypatch.setattr(manifest, "_SETTLED_SECONDS", -10.0)
    path.write_text("long")
    facts = FactsCache(cache).facts(path)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 3)
    assert FactsCache(cache).facts(path) == facts
    with pytest.raises(UserError, match="text: line 1 is longer"):
        FactsCache(cache).facts(path, is_text=True)
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 5)
    assert FactsCache(cache).facts(path, is_text=True) == facts
    monkeypatch.setattr(manifest, "read_facts", None)  # whoever reads now would fail
    assert FactsCache(cache).facts(path) == FactsCache(cache).facts(path, is_text=True) == facts


@pytest.mark.parametrize("text", ["{", "null", "[1]", '{"a": {"stamp": [], "facts": null}}'])
def test_a_damaged_cache_is_ignored(tmp_path: Path, text: str) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    path.write_text("one\n")
    cache.write_text(text)
    assert FactsCache(cache).facts(path).num_lines == 1


def test_missing_and_changed_files_of_a_corpus_are_found(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "valid.en").write_text("one\n")
    outputs = describe_outputs(tmp_path)
    assert list(outputs) == ["text/valid.en"]
    path, text, cache = (tmp_path / name for name in ("manifest.json", "text/valid.en", "cache"))
    described = {name: asdict(each) for name, each in outputs.items()}
    values = {"outputs": described, "words": {3: 1}, "num": 5}
    write_record_of(tmp_path, "manifest.json", values)
    assert damage(path, FactsCache(cache)) == ""
    shard = tmp_path / "train-00001.arrow"
    shard.touch()
    assert damage(path, FactsCache(cache)) == f"{shard}: is not part of the corpus"
    shard.unlink()
    written = path.read_text()
    path.write_text(written.replace('"num": 5', '"num": 6'))
    assert damage(path, FactsCache(cache)) == f"{path}: is damaged"
    path.write_text(written)
    for changed in ("longer\n", "ona\n"):
        text.write_text(changed)
        assert damage(path, FactsCache(cache)) == f"{text}: is damaged"
    text.unlink()
    assert damage(path, FactsCache(cache)) == f"{text}: is missing"
    path.write_text("[]")
    assert damage(path, FactsCache(cache)).startswith(f"{path}: ")


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    cache, table = FactsCache(tmp_path / "cache"), tmp_path / "pairs.tsv"
    table.write_text("a\tb\n")
    reader = TableReader(table, CorpusConfig(source=CorpusSource.folder, path="x"), cache, print)
    assert len(list(reader.pairs())) == 1
    for name in ("train.en", "train.de"):
        (tmp_path / name).write_text("a\nb\n")
    paths = tmp_path / "train.en", tmp_path / "train.de"
    files = AlignedFiles(paths, cache, "corpus.path")
    assert len(list(files.pairs())) == 2
    for changed in ("a\n", "a\nc\n"):
        paths[1].write_text(changed)
        with pytest.raises(UserError, match=r"train\.de: was changed while it was read"):
            list(files.pairs())
    table.write_text("a\tc\n")
    with pytest.raises(UserError, match=r"pairs\.tsv: was changed while it was read"):
        list(reader.pairs())
