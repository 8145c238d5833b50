import os
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.files import (
    atomic_folder,
    atomic_path,
    atomic_writer,
    check_readable,
    file_inside,
    iterate_lines,
    read_json,
    read_lines,
    write_json,
    write_lines,
    written_to,
)


def test_a_line_ends_in_line_feed_alone(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\u2028b\x85c\x0bd\x0ce\r\nf\rg\n\nlast".encode())
    assert read_lines(path) == ["a\u2028b\x85c\x0bd\x0ce\r", "f\rg", "", "last"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    for lines in (["new"], ["newer"]):  # the target is not there, and is
        write_lines(tmp_path / "link", lines)
        assert (tmp_path / "link").is_symlink()
        assert read_lines(tmp_path / "target") == lines


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(UserError, match="is no file but a device or a pipe"):
            write_lines(tmp_path / name, ["text"])
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(UserError, match="is no file but a device"):
        written_to(Path("/dev/null"))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    lines = ["", "ä\u2028ö", "carriage\r", "tab\t", "\ufeffmark", "\U0001f600", " spaces "]
    write_lines(tmp_path / "new" / "text", lines)
    assert read_lines(tmp_path / "new" / "text") == lines
    assert (tmp_path / "new" / "text").read_bytes() == "".join(f"{x}\n" for x in lines).encode()


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    write_lines(tmp_path / "text", [])
    assert read_lines(tmp_path / "text") == []


def test_what_is_not_utf_8_is_named_by_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("gut\nschön\n".encode() + "sch\xf6n\n".encode("latin1"))
    lines = iterate_lines(path)
    assert [next(lines), next(lines)] == ["gut", "schön"]
    with pytest.raises(UserError, match=rf"{path}: line 3, byte 4: 0xf6 is not valid UTF-8"):
        next(lines)


def test_a_missing_file_a_folder_and_a_locked_file_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'no'}: no such file"):
        check_readable(tmp_path / "no")
    with pytest.raises(UserError, match=f"{tmp_path}: is not a file"):
        check_readable(tmp_path)
    (tmp_path / "locked").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserError, match="locked: cannot be read: permission denied"):
        read_lines(tmp_path / "locked")


def test_a_file_inside_a_folder_is_found_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "link").symlink_to("file")
    (tmp_path / "latest").symlink_to("folder")
    assert file_inside(folder, "file") == folder / "file"
    assert file_inside(folder, "link") == folder / "link"
    assert file_inside(tmp_path / "latest", "link") == tmp_path / "latest" / "link"


@pytest.mark.parametrize("name", ["../file", "link_out", "folder_out/file", "/etc/passwd"])
def test_a_file_outside_a_folder_is_not_of_it(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "file").touch()
    (folder / "link_out").symlink_to("../file")
    (folder / "folder_out").symlink_to(tmp_path)
    with pytest.raises(UserError, match=f"{folder / name}: leads out of its folder"):
        file_inside(folder, name)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "no such file; .* is not whole"),
        ("n" * 5_000, "no such file"),
        ("folder", "is not a file"),
        ("pipe", "is not a file"),
        ("ring", "no such file"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "ring").symlink_to("ring")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=told):
        file_inside(tmp_path, name)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with atomic_writer(path) as out:
            out.write("new")
            out.flush()
            assert path.read_text() == "old"
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert contents(tmp_path) == {"file": "old"}


def test_an_interrupted_write_leaves_the_old_file_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def interrupt() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert contents(tmp_path) == {"file": "old"}


def test_a_finished_write_replaces_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_writer(path) as out:
        out.write("new")
    assert contents(tmp_path) == {"file": "new"}


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "a").write_text("old")

    def fail() -> None:
        with atomic_folder(folder) as temporary:
            (temporary / "a").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert contents(folder) == {"a": "old"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_finished_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "a").write_text("old")
    with atomic_folder(folder) as temporary:
        assert list(temporary.iterdir()) == []
        (temporary / "b").write_text("new")
        assert contents(folder) == {"a": "old"}
    assert contents(folder) == {"b": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_json_goes_there_and_back(tmp_path: Path) -> None:
    value = {"name": "Größe", "numbers": [1, 2.5, None, True]}
    write_json(tmp_path / "value.json", value)
    assert read_json(tmp_path / "value.json") == value
    assert "Größe" in (tmp_path / "value.json").read_text(encoding="utf-8")


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "value.json", 1)
    with pytest.raises(TypeError):
        write_json(tmp_path / "value.json", {"good": 1, "bad": object()})
    assert read_json(tmp_path / "value.json") == 1
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a": 1} more', b"\xff\xfe", b"[" * 10**5, b"1" * 5000]
)
def test_what_is_not_json_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "value.json"
    path.write_bytes(data)
    with pytest.raises(UserError, match=f"{path}: is not valid JSON"):
        read_json(path)
