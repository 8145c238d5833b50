"""Files and folders appear complete or not at all, also on full and read-only disks."""

import errno
import os
import re
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from nmt.base import files
from nmt.base.errors import DiskError, UserError
from nmt.base.files import (
    append_text,
    atomic_folder,
    atomic_path,
    write_json,
    write_lines,
    write_texts,
)
from tests.small_disk import in_a_process, needs_mounts, remount, small_disk, tree, used_bytes
from tests.support import dead_process

LARGE_TEXT = "a line of some length\n" * 20_000


def write_file(path: Path, text: str, error: BaseException | None = None) -> None:
    with atomic_path(path, len(text)) as temporary:
        temporary.write_text(text)
        if error:
            raise error


def write_folder(path: Path, text: str, error: BaseException | None = None) -> None:
    with atomic_folder(path, len(text)) as folder:
        assert list(folder.iterdir()) == []
        write_json(folder / "small.json", 1)
        write_lines(folder / "deeper" / "big.txt", [text])
        if error:
            raise error


def write_several(path: Path, text: str, error: BaseException | None = None) -> None:
    write_texts({path: text, path.with_name("other"): text[:3]})
    if error:
        raise error


WRITERS = {"file": write_file, "folder": write_folder, "several": write_several}


def write_all(folder: Path, text: str) -> dict[str, bytes]:
    for name, write in WRITERS.items():
        write(folder / name, text)
    return tree(folder)


def error_of(write: Callable[..., None], *arguments: object) -> str:
    """Return the message of the disk error that `write` raises, which must be one line."""
    with pytest.raises(DiskError) as error:
        write(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt(), OSError(errno.EIO, "x")])
def test_an_output_is_replaced_as_a_whole_or_not_at_all(
    write: Callable[..., None], error: BaseException, tmp_path: Path
) -> None:
    for text in ("first", "second"):
        write(tmp_path / "out", text)
    before = tree(tmp_path)
    assert all(b"first" not in data for data in before.values())
    with pytest.raises((type(error), DiskError)):
        write(tmp_path / "out", "new", error)
    assert tree(tmp_path) == before


def check_disk(folder: str) -> None:
    disk = Path(folder)
    with small_disk(disk, 200_000):
        before = write_all(disk, "old")
        for name, write in WRITERS.items():
            message = error_of(write, disk / name, LARGE_TEXT)
            assert re.fullmatch(
                rf"{disk / name}: cannot be written: no space left on device \(about 440 kB needed,"
                r" 1\d\d kB free\); fix this or write elsewhere .*, then run the command again",
                message,
            ), message
            assert tree(disk) == before
        for option, limit, reason in (
            ("rw", 100_000, "file too large"),
            ("ro", resource.RLIM_INFINITY, "read-only file system"),
        ):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            remount(disk, option)
            for name, write in WRITERS.items():
                message = error_of(write, disk / name, LARGE_TEXT)
                assert message.startswith(f"{disk / name}: cannot be written: {reason}")
                assert tree(disk) == before
        # With the reported space, the same writes succeed.
        remount(disk, f"rw,size={used_bytes(disk) + 4 * 450_000}")
        assert write_all(disk, LARGE_TEXT)["several"] == LARGE_TEXT.encode()


@needs_mounts
def test_full_limited_and_read_only_disks_keep_the_old_files(tmp_path: Path) -> None:
    in_a_process(check_disk, tmp_path / "disk", mounts=True)


def test_links_are_replaced_and_devices_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "target", ["old"])
    (tmp_path / "link").symlink_to("target")
    write_lines(tmp_path / "link", ["new"])
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "old\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a device or a pipe"):
        write_lines(tmp_path / "pipe", ["text"])


def test_nothing_is_written_through_a_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    monkeypatch.setattr(files, "remove", lambda path: None)  # as in a sticky folder
    link = tmp_path / f".out.{os.getpid()}.tmp"
    link.symlink_to(precious)
    with pytest.raises(UserError, match=f"{link}: cannot be removed; remove it"):
        write_lines(tmp_path / "out", ["text"])
    assert precious.read_text() == "mine"


def test_what_killed_processes_left_is_removed_or_restored(tmp_path: Path) -> None:
    dead = dead_process()
    write_folder(tmp_path / "folder", "old")
    (tmp_path / "folder").rename(tmp_path / f".folder.{dead}.old")  # killed between two renames
    with pytest.raises(RuntimeError):
        write_folder(tmp_path / "folder", "new", RuntimeError())
    assert b"old\n" in tree(tmp_path / "folder").values()
    with subprocess.Popen(["sleep", "60"]) as living:
        kept = {f".text.{living.pid}.tmp", f".text.{dead}.tmp.txt", f".textual.{dead}.tmp"}
        for name in (*kept, f".text.{dead}.tmp", f".text.{os.getpid()}.tmp"):
            (tmp_path / name).write_text("half")
        write_lines(tmp_path / "text", ["whole"])
        assert {path.name for path in tmp_path.glob(".text*")} == kept
        living.kill()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        RuntimeError("I/O error: Disk quota exceeded (os error 122)"),
        ValueError("unexpected position"),
    ],
)
def test_errors_of_the_disk_and_of_libraries_are_recognised(
    error: Exception, tmp_path: Path
) -> None:
    if isinstance(error, ValueError):
        error.__context__ = OSError(errno.EDQUOT, "")
    message = error_of(write_file, tmp_path / "a", "text", error)
    assert message.startswith(f"{tmp_path / 'a'}: cannot be written: disk quota exceeded (about")


@pytest.mark.parametrize("error", [BrokenPipeError(errno.EPIPE, ""), ValueError(), UserError()])
def test_other_errors_pass_unchanged(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        write_file(tmp_path / "text", "text", error)
    assert caught.value is error


@pytest.mark.parametrize("part", ["deeper/shard", "../elsewhere"])
def test_the_error_names_the_whole_folder_and_not_a_part_of_it(part: str, tmp_path: Path) -> None:
    def write() -> None:
        with atomic_folder(tmp_path / "corpus", 2 * 10**9) as folder:
            raise DiskError(Path(os.path.normpath(folder / part)), errno.EFBIG, 10**9)

    inside = not part.startswith("..")
    message = error_of(write)
    assert message.startswith(f"{tmp_path / ('corpus' if inside else 'elsewhere')}: ")
    assert f"about {2 if inside else 1},000 MB needed" in message


def test_text_is_not_appended_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to("precious")
    with pytest.raises(DiskError, match="link: cannot be written"):
        append_text(tmp_path / "link", "text")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_file_is_replaced_by_one_rename_and_a_link_by_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("nothing")
    write_folder(tmp_path / "link", "new")
    assert (tmp_path / "link").is_dir()
    write_file(tmp_path / "file", "old")
    monkeypatch.setattr(os, "replace", renamed := Mock(wraps=os.replace))
    write_file(tmp_path / "file", "new")
    assert renamed.call_count == 1


def test_an_error_that_quotes_one_of_the_disk_stays_itself(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^x: No space left on device$") as raised:
        write_file(tmp_path / "file", "new", UserError("x: No space left on device"))
    assert not isinstance(raised.value, DiskError)
