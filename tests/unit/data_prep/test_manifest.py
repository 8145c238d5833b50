import os
from pathlib import Path

from data_prep import manifest
from data_prep.manifest import FactsCache, describe_outputs, fingerprint, missing_output, read_facts


def age(path: Path) -> None:
    """Make a file look as if it had rested for long."""
    os.utime(path, (1_000_000_000, 1_000_000_000))


def test_fingerprint_knows_values_not_order() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert len(fingerprint("x")) == 12


def test_lines_end_in_newline_alone(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\u2028b\r\nc\x85d\rlast".encode())
    assert read_facts(path).num_lines == 2
    path.write_bytes(b"")
    assert read_facts(path).num_lines == 0


def test_facts_are_remembered_until_the_file_changes(tmp_path: Path, monkeypatch) -> None:
    # Settled long ago, as far as the cache can see: the change time cannot be set back.
    monkeypatch.setattr(manifest, "_SETTLED_SECONDS", -10.0)
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    path.write_text("one\n")
    first = FactsCache(cache).facts(path)
    reads: list[Path] = []

    def counting(path: Path) -> manifest.FileFacts:
        reads.append(path)
        return read_facts(path)

    monkeypatch.setattr(manifest, "read_facts", counting)
    assert FactsCache(cache).facts(path) == first
    assert not reads
    path.write_text("two\n")
    age(path)
    assert FactsCache(cache).facts(path) != first
    assert reads == [path]


def test_a_fresh_file_is_not_trusted_to_its_time_stamp(tmp_path: Path) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    path.write_text("one\n")
    FactsCache(cache).facts(path)
    assert not cache.exists()


def test_a_damaged_cache_is_no_loss(tmp_path: Path) -> None:
    path, cache = tmp_path / "text", tmp_path / "cache.json"
    path.write_text("one\n")
    cache.write_text("{")
    assert FactsCache(cache).facts(path).num_lines == 1


def test_missing_output(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "valid.en").write_text("one\n")
    outputs = describe_outputs(tmp_path)
    assert list(outputs) == ["text/valid.en"]
    assert missing_output(tmp_path, outputs) == ""
    (tmp_path / "text" / "valid.en").write_text("longer\n")
    assert missing_output(tmp_path, outputs) == "text/valid.en"
    (tmp_path / "text" / "valid.en").unlink()
    assert missing_output(tmp_path, outputs) == "text/valid.en"
