import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from data_prep import manifest
from data_prep.manifest import FactsCache, describe_outputs, fingerprint, missing_output, read_facts
from nmt.base.files import write_json


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
    read.assert_called_once_with(path)


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
    path = tmp_path / "manifest.json"
    write_json(path, {"outputs": outputs})
    assert missing_output(path) == ""
    (tmp_path / "text" / "valid.en").write_text("longer\n")
    assert missing_output(path) == "text/valid.en"
    (tmp_path / "text" / "valid.en").unlink()
    assert missing_output(path) == "text/valid.en"
