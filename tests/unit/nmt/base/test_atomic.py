"""Atomic files and folders."""

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import DiskError, UserError
from nmt.base.files import atomic_folder, atomic_path, read_lines, write_lines
from tests.support import dead_process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write_file(path: Path, text: str, error: BaseException | None = None) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text)
        if error:
            raise error


def write_folder(path: Path, text: str, error: BaseException | None = None) -> None:
    with atomic_folder(path) as folder:
        assert list(folder.iterdir()) == []
        (folder / text).write_text(text)
        (folder / "deeper").mkdir()
        (folder / "deeper" / "text").write_text(text)
        if error:
            raise error


def read(path: Path) -> str:
    if path.is_file():
        return path.read_text()
    text = (path / "deeper" / "text").read_text()
    assert names(path) == sorted(["deeper", text])
    return text


both = pytest.mark.parametrize("write", [write_file, write_folder])


@both
def test_an_output_is_replaced(write: Callable[..., None], tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        write(tmp_path / "out", text)
        assert read(tmp_path / "out") == text
        assert names(tmp_path) == ["out"]


@both
@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt()])
def test_an_error_leaves_the_old_output(
    write: Callable[..., None], error: BaseException, tmp_path: Path
) -> None:
    write(tmp_path / "out", "old")
    with pytest.raises(type(error)):
        write(tmp_path / "out", "new", error)
    assert read(tmp_path / "out") == "old"
    assert names(tmp_path) == ["out"]


def test_a_link_is_replaced_and_a_device_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "target", ["old"])
    (tmp_path / "link").symlink_to("target")
    write_lines(tmp_path / "link", ["new"])
    assert not (tmp_path / "link").is_symlink()
    assert read_lines(tmp_path / "target") == ["old"]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe").symlink_to("pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "to_pipe", "null"):
        with pytest.raises(UserError, match="is a device or a pipe"):
            write_lines(tmp_path / name, ["text"])
    assert (tmp_path / "pipe").is_fifo()


def test_the_old_folder_is_restored_if_the_new_one_cannot_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "folder", "old")
    original = os.replace

    def replace(old: Path, new: Path) -> None:
        if Path(old).suffix == ".tmp":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(old, new)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(DiskError, match="input/output error"):
        write_folder(tmp_path / "folder", "new")
    monkeypatch.undo()
    assert names(tmp_path) == ["folder"]
    assert read(tmp_path / "folder") == "old"
    # Also that of a process that was killed between the two renames.
    os.rename(tmp_path / "folder", tmp_path / f".folder.{dead_process()}.old")
    with pytest.raises(RuntimeError):
        write_folder(tmp_path / "folder", "new", RuntimeError())
    assert names(tmp_path) == ["folder"]
    assert read(tmp_path / "folder") == "old"


def test_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    dead = dead_process()
    with subprocess.Popen(["sleep", "60"]) as living:
        (tmp_path / f".text.{dead}.tmp").write_text("half")
        (tmp_path / f".text.{os.getpid()}.tmp").write_text("of an earlier process of our number")
        (tmp_path / f".text.{living.pid}.tmp").write_text("in progress")
        (tmp_path / f".folder.{dead}.tmp").mkdir()
        (tmp_path / f".folder.{dead}.tmp" / "half").write_text("half")
        others = [f".text.{dead}.tmp.txt", f".textual.{dead}.tmp", ".text.tmp", "text.1.tmp"]
        for name in others:
            (tmp_path / name).write_text("another file")
        write_lines(tmp_path / "text", ["whole"])
        write_folder(tmp_path / "folder", "whole")
        assert names(tmp_path) == sorted([*others, "folder", "text", f".text.{living.pid}.tmp"])
        living.kill()


def test_removal_does_not_hide_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", unlink)

    def fail() -> None:
        with atomic_path(tmp_path / "text") as path:
            path.write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DiskError, match="no space left on device"):
        fail()
    assert names(tmp_path) == [f".text.{os.getpid()}.tmp"]
