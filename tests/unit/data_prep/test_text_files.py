import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from data_prep import text_files
from data_prep.text_files import iterate_text
from nmt.base.errors import UserError
from nmt.base.files import write_lines
from tests.unit.data_prep.conftest import Toy

LINES = [f"{number} ä\u2028 🎉" for number in range(5_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def zst(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(text)
    return bytes(sink.getvalue())


COMPRESSIONS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}
each = pytest.mark.parametrize("ending", COMPRESSIONS)


@each
def test_compressed_text_is_read_and_damage_is_noticed(ending: str, tmp_path: Path) -> None:
    path, whole = tmp_path / f"a.en{ending}", COMPRESSIONS[ending](TEXT)
    path.write_bytes(whole + whole)  # as `cat` joins compressed files
    assert list(iterate_text(path)) == LINES + LINES
    for damaged in (whole[:-20], whole[: len(whole) // 2], b"no compressed data"):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=rf"a\.en{ending}: is cut short or damaged"):
            list(iterate_text(path))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("é\n".encode("utf-16"), "is UTF-16; convert the file first"),
        (
            b"PK\x03\x04\n",
            "is an archive or a document of an office program; unpack it, or save it",
        ),
        (gzip.compress(b"a\n", mtime=0), "line 1, byte 2: 0x8b is not valid UTF-8; decompress or"),
        (b"a\n" + b"x" * 100, "line 2 is longer than 0 MB; a text file has one sentence per line"),
        (b"a\n\xff\n", "line 2, byte 1: 0xff is not valid UTF-8"),
    ],
)
def test_a_file_that_is_not_text(
    raw: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", 99)
    (tmp_path / "a.en").write_bytes(raw)
    with pytest.raises(UserError, match=message):
        list(iterate_text(tmp_path / "a.en"))


@each
def test_a_compressed_corpus_equals_the_plain_one(
    ending: str, toy: Toy, tmp_path: Path, opened
) -> None:
    plain = opened(toy.config)
    pairs = {split: list(plain.pairs(split)) for split in plain.splits()}
    for path in list(toy.raw.iterdir()):
        compressed = path.with_name(path.name + ending)
        compressed.write_bytes(COMPRESSIONS[ending](path.read_bytes()))
        path.unlink()
    source = opened(toy.config)
    assert source.splits() == ["train", "valid", "test"]
    assert source.num_pairs("train") == 200
    assert {split: list(source.pairs(split)) for split in source.splits()} == pairs
    write_lines(toy.raw / "train.en", ["another"])
    with pytest.raises(UserError, match=rf"train\.en and .*train\.en{ending} both exist; remove"):
        opened(toy.config)


def test_training_text_in_parts(toy: Toy, tmp_path: Path, opened) -> None:
    whole = list(opened(toy.config).pairs("train"))
    for language, side in zip(("en", "de"), zip(*whole, strict=True), strict=True):
        (toy.raw / f"train.{language}").unlink()
        write_lines(toy.raw / f"train.a.b.{language}", side[:30])
        compressed = toy.raw / f"train.news.{language}.gz"
        compressed.write_bytes(gzip.compress("\n".join(side[30:]).encode()))
    source = opened(toy.config)
    assert source.splits() == ["train", "valid", "test"]
    assert list(source.pairs("train")) == whole
    assert source.num_pairs("train") == len(whole)
    before = source.identity()
    (toy.raw / "train.news.en.gz").rename(toy.raw / "train.more.en.gz")
    with pytest.raises(UserError, match=r"train\.more\.de: no such file"):
        opened(toy.config)
    (toy.raw / "train.news.de.gz").rename(toy.raw / "train.more.de.gz")
    assert list(opened(toy.config).pairs("train")) == whole
    assert opened(toy.config).identity() != before


def test_two_files_with_one_beginning(toy: Toy, tmp_path: Path, opened) -> None:
    whole = list(opened(toy.config).pairs("train"))
    for language, side in zip(("en", "de"), zip(*whole, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in side).encode()
        (tmp_path / f"Europarl.de-en.{language}.gz").write_bytes(gzip.compress(text))
    source = opened(toy.config, path=str(tmp_path / "Europarl.de-en"))
    assert source.splits() == ["train", "valid", "test"]
    held_out = len(list(source.pairs("valid"))) + len(list(source.pairs("test")))
    assert 0 < len(list(source.pairs("train"))) <= len(whole) - held_out
    (tmp_path / "Europarl.de-en.de.gz").unlink()
    with pytest.raises(UserError, match=r"Europarl\.de-en\.de: no such file"):
        opened(toy.config, path=str(tmp_path / "Europarl.de-en"))
