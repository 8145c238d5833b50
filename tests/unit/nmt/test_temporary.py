import errno
import os
import subprocess
from pathlib import Path

import pytest

from nmt import temporary
from nmt.disk_fault import DiskFault
from nmt.files import atomic_folder, atomic_path, write_lines
from nmt.temporary import clear, temporary_name
from tests.support import dead_process


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(params=["swapped", "renamed twice"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Both ways to replace a folder; `renamed twice` is that of systems that cannot swap."""
    if request.param == "renamed twice":
        monkeypatch.setattr(temporary, "_exchange", lambda first, second: False)
        return "renamed twice"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    swapped = temporary._exchange(tmp_path / "a", tmp_path / "b")
    for name in ("a", "b"):
        (tmp_path / name).rmdir()
    if not swapped:
        pytest.skip("this file system cannot swap two names (renameat2)")
    return "swapped"


def write_folder(path: Path, text: str) -> None:
    with atomic_folder(path) as folder:
        (folder / "text").write_text(text)
        (folder / "deeper").mkdir()
        (folder / "deeper" / "text").write_text(text)


def test_a_folder_is_replaced_whole(way: str, tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        write_folder(tmp_path / "folder", text)
        assert (tmp_path / "folder" / "deeper" / "text").read_text() == text
        assert names(tmp_path) == ["folder"]


def test_a_swapped_folder_is_never_absent(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "folder", "old")
    renamed = []
    original = os.replace
    monkeypatch.setattr(
        os, "replace", lambda old, new: (renamed.append(Path(new).name), original(old, new))
    )
    write_folder(tmp_path / "folder", "new")
    expected = [] if way == "swapped" else [f".folder.{os.getpid()}.old", "folder"]
    assert renamed == expected


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "folder", "old")
    monkeypatch.setattr(temporary, "_exchange", lambda first, second: False)
    original = os.replace

    def replace(old: Path, new: Path) -> None:
        if Path(old).suffix == ".tmp":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(old, new)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(DiskFault, match="input/output error"):
        write_folder(tmp_path / "folder", "new")
    assert (tmp_path / "folder" / "text").read_text() == "old"
    assert names(tmp_path) == ["folder"]


def test_what_killed_processes_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    dead = dead_process()
    with subprocess.Popen(["sleep", "60"]) as living:
        (tmp_path / f".text.{dead}.tmp").write_text("half")
        (tmp_path / f".text.{os.getpid()}.tmp").write_text("of our number, long ago")
        (tmp_path / f".text.{living.pid}.tmp").write_text("under way")
        (tmp_path / f".folder.{dead}.tmp").mkdir()
        (tmp_path / f".folder.{dead}.tmp" / "half").write_text("half")
        others = [f".text.{dead}.tmp.txt", f".textual.{dead}.tmp", ".text.tmp", "text.1.tmp"]
        for name in others:
            (tmp_path / name).write_text("no leftover of text")
        write_lines(tmp_path / "text", ["whole"])
        write_folder(tmp_path / "folder", "whole")
        assert names(tmp_path) == sorted([*others, "folder", "text", f".text.{living.pid}.tmp"])
        living.kill()


def test_a_process_killed_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", "old")
    os.rename(tmp_path / "folder", tmp_path / f".folder.{dead_process()}.old")

    def fail() -> None:
        with atomic_folder(tmp_path / "folder"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "text").read_text() == "old"


def test_clearing_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", refuse)

    def fail() -> None:
        with atomic_path(tmp_path / "text") as path:
            path.write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DiskFault, match="no space left on device"):
        fail()
    clear(tmp_path / "no such folder" / "text")
    assert temporary_name(tmp_path / "text").exists()
