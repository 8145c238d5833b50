import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.base.files import (
    check_aligned,
    check_readable,
    decode_line,
    file_inside,
    iterate_lines,
    read_json,
    read_lines,
    read_record,
    remove,
    write_json,
    write_lines,
)


@dataclass(frozen=True)
class Part:
    size: int


@dataclass(frozen=True)
class Contents:
    name: str
    parts: dict[str, Part]
    counts: dict[int, float]


@pytest.mark.parametrize(
    "lines", [[], ["", "a\u2028b\x85c\x0bd\x0ce\r", "f\rg\t", "\ufeffmark", "\U0001f600", " x "]]
)
def test_only_a_line_feed_ends_a_line(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "new" / "text"
    write_lines(path, lines)
    assert read_lines(path) == lines
    assert path.read_bytes() == "".join(f"{x}\n" for x in lines).encode()
    path.write_bytes(path.read_bytes() + b"last")
    assert read_lines(path) == [*lines, "last"]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_lines(path) == [*lines, "last"]  # a BOM is no part of the text


def test_text_that_is_not_utf_8_is_reported_by_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("gut\nschön\n".encode() + "sch\xf6n\n".encode("latin1"))
    lines = iterate_lines(path)
    assert [next(lines), next(lines)] == ["gut", "schön"]
    with pytest.raises(UserError, match=rf"{path}: line 3, byte 4: 0xf6 is not valid UTF-8"):
        next(lines)


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gb18030", "你好。\n昨天我买了一本书。"),
        ("big5", "你好。\n昨天我買了一本書。"),
        ("shift-jis", "こんにちは。\n昨日、本を買いました。"),
        ("euc-jp", "こんにちは。\n昨日、本を買いました。彼は今日、東京に行きました。"),
        ("euc-kr", "안녕하세요.\n어제 책을 샀습니다."),
        ("koi8-r", "Да.\nВчера я купил книгу."),
        ("koi8-u", "Так.\nСьогодні він поїхав до Києва."),
        ("windows-1251", "Да.\nВчера я купил книгу."),
        ("windows-1250", "Tak.\nChciałbym, żebyś przyszedł później do ogrodu."),
        ("windows-1253", "Ναι.\nΣήμερα πήγε στην Αθήνα."),
        ("latin1", "naïve\nThe café is open."),
    ],
)
def test_the_error_names_an_encoding_that_fits_the_file(
    encoding: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "text"
    path.write_bytes("“UTF-8”\n".encode() + f"{text}\n".encode(encoding))
    with pytest.raises(UserError, match=rf"file first \(perhaps by iconv -f {encoding} -t utf-8"):
        read_lines(path)


def test_an_encoding_that_is_uncertain_has_an_alternative() -> None:
    with pytest.raises(UserError, match=r"iconv -f latin1 -t utf-8 or -f windows-1254\)"):
        decode_line("Dün bir kitap satın aldım.".encode("windows-1254"), "stdin", 1)
    with pytest.raises(UserError, match=r"decompress or convert .* iconv -f ENCODING -t utf-8\)"):
        decode_line(b"\x1f\x8b\x08\x00\x99\x88\x00\xff", "stdin", 1)


def test_missing_files_folders_and_forbidden_files_are_distinguished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'no'}: no such file"):
        check_readable(tmp_path / "no")
    with pytest.raises(UserError, match=f"{tmp_path}: is not a file"):
        check_readable(tmp_path)
    (tmp_path / "forbidden").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="forbidden: cannot be read: permission denied"):
        read_lines(tmp_path / "forbidden")


def test_files_of_different_lengths_are_reported() -> None:
    check_aligned({"a": 1_000, "b": 1_000})
    with pytest.raises(UserError, match="a has 1,000 lines and c has 999; they must be aligned"):
        check_aligned({"a": 1_000, "b": 1_000, "c": 999})


@pytest.mark.parametrize(
    "name", ["../file", "a/b", "/etc/passwd", "..", ".hidden", "", "a\n", "\x1b[2J", "\ud8ff"]
)
def test_names_that_are_not_plain_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a plain file name"):
        file_inside(tmp_path, name)


def test_written_json_is_read_back(tmp_path: Path) -> None:
    value, path = {"name": "Größe", "numbers": [1, 2.5, None, True]}, tmp_path / "value.json"
    write_json(path, value)
    with pytest.raises(TypeError):
        write_json(path, {"good": 1, "bad": object()})
    assert read_json(path) == value
    assert "Größe" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a": 1} more', b"\xff\xfe", b"[" * 10**5, b"1" * 5000]
)
def test_invalid_json_is_reported(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(data)
    with pytest.raises(UserError, match=f"{path}: Invalid JSON"):
        read_json(path)


VALID = {"name": "a", "parts": {"x": {"size": 1}}, "counts": {"3": 1, "5": 2.5}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "Input should be an object"),
        ({}, "key name: Field required"),
        ({**VALID, "parts": {"x": {"size": "1"}}}, "key parts.x.size: .* valid integer"),
        ({**VALID, "parts": {"\x1b[2J": {}}}, r"key parts.\\x1b\[2J.size: Field required"),
        ({**VALID, "counts": {"a": 1}}, "key counts.a.*: .* valid integer"),
    ],
)
def test_a_wrong_type_is_reported_by_file_key_and_fix(
    tmp_path: Path, value: Any, message: str
) -> None:
    path = tmp_path / "record.json"
    write_json(path, {**VALID, "unknown": None})
    assert read_record(path, Contents) == Contents("a", {"x": Part(1)}, {3: 1.0, 5: 2.5})
    write_json(path, value)
    with pytest.raises(UserError, match=rf"{path}: {message}.*; prepare again") as error:
        read_record(path, Contents, "prepare again")
    assert str(error.value).isprintable()


def test_a_forbidden_folder_is_not_an_incomplete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"no: no such file; {tmp_path} is incomplete"):
        file_inside(tmp_path, "no")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="no: cannot be read: permission denied"):
        file_inside(tmp_path, "no")


def test_only_the_first_line_tells_utf_16() -> None:
    with pytest.raises(UserError, match="f: line 2, byte 1: 0xff is not valid UTF-8"):
        decode_line(b"\xff\xfe\n", "f", 2)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux has /proc")
def test_a_file_that_fails_while_it_is_read_is_named() -> None:
    with pytest.raises(UserError, match="/proc/self/mem: cannot be read: Input/output error"):
        read_lines(Path("/proc/self/mem"))


def test_a_link_is_removed_without_its_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    remove(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
