"""Writers of `nmt.base.files` on full and read-only disks."""

import copy
import errno
import os
import re
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.errors import DiskError, UserError
from nmt.base.files import (
    atomic_folder,
    atomic_path,
    write_json,
    write_lines,
    write_texts,
    writing,
)
from nmt.base.outputs import Outputs
from tests.small_disk import in_a_process, needs_mounts, remount, small_disk, tree, used_bytes

LARGE_TEXT = "a line of some length\n" * 20_000


def error_of(write: Callable[[], None]) -> str:
    """Return the message of the disk error that `write` raises, which must be one line."""
    with pytest.raises(DiskError) as error:
        write()
    message = str(error.value)
    assert ": cannot be written: " in message, message
    assert "\n" not in message
    return message


def failing(path: Path, error: Exception, needed: int | None = None) -> Callable[[], None]:
    def write() -> None:
        with writing(path, needed):
            raise error

    return write


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENAMETOOLONG],
)
def test_a_disk_error_names_the_file_the_reason_and_the_bytes_needed(
    number: int, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "text"
    message = error_of(failing(path, OSError(number, "text"), needed=10**15))
    reason = re.escape(os.strerror(number).lower())
    free = r", [\d,]+ \wB free" if number == errno.ENOSPC else ""
    assert re.match(
        rf"{path}: cannot be written: {reason} \(about 1,000,000 GB needed{free}\); fix", message
    )
    twin = copy.copy(DiskError(path, number, 34))  # as for another process
    assert (twin.path, twin.number, twin.needed) == (path, number, 34)


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError("without a number"),
        ValueError("a bug"),
        UserError("another error: No space left on device"),
    ],
)
def test_other_errors_pass_unchanged(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        failing(tmp_path / "text", error)()
    assert caught.value is error


def test_exceptions_of_libraries_that_wrap_a_disk_error_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    in_message = RuntimeError("I/O error: No space left on device (os error 28)")
    assert "no space left on device" in error_of(failing(path, in_message))
    as_cause = RuntimeError("unexpected position")
    as_cause.__context__ = OSError(errno.EFBIG, "File too large")
    assert "file too large" in error_of(failing(path, as_cause))


@pytest.mark.parametrize("part", ["deeper/shard", "../elsewhere"])
def test_the_error_names_the_whole_folder_and_not_a_part_of_it(part: str, tmp_path: Path) -> None:
    def write() -> None:
        with atomic_folder(tmp_path / "corpus", 2 * 10**9) as folder:
            raise DiskError(Path(os.path.normpath(folder / part)), errno.EFBIG, 10**9)

    inside = not part.startswith("..")
    message = error_of(write)
    assert message.startswith(f"{tmp_path / ('corpus' if inside else 'elsewhere')}: ")
    assert f"about {2 if inside else 1},000 MB needed" in message


def test_an_io_error_leaves_the_old_files(tmp_path: Path, monkeypatch) -> None:
    # A real disk cannot be made to fail at `fsync`, so the call itself is replaced.
    write_json(tmp_path / "value.json", "old")
    write_folder(tmp_path / "folder", "old")
    before = tree(tmp_path)

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    for write in (
        lambda: write_json(tmp_path / "value.json", "new"),
        lambda: write_folder(tmp_path / "folder", "new"),
        lambda: write_texts({tmp_path / "value.json": "new", tmp_path / "other": "new"}),
    ):
        assert "input/output error" in error_of(write)
        assert tree(tmp_path) == before


def write_folder(path: Path, text: str) -> None:
    with atomic_folder(path, len(text)) as folder:
        write_json(folder / "small.json", 1)
        write_lines(folder / "big.txt", [text])


def write_to_a_path(path: Path) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(LARGE_TEXT)


def writes(disk: Path) -> dict[str, Callable[[], None]]:
    """Writers of more than the small disk or the file-size limit allows, by the reported name."""
    return {
        "value.json": lambda: write_json(disk / "value.json", LARGE_TEXT),
        "folder": lambda: write_folder(disk / "folder", LARGE_TEXT),
        "big": lambda: write_texts({disk / "other": "new", disk / "big": LARGE_TEXT}),
        "path": lambda: write_to_a_path(disk / "path"),
    }


def write_old_files(disk: Path) -> dict[str, bytes]:
    write_json(disk / "value.json", "old")
    write_folder(disk / "folder", "old")
    write_lines(disk / "other", ["old"])
    return tree(disk)


def check_full(folder: str) -> None:
    disk = Path(folder)
    with small_disk(disk, 200_000):
        before = write_old_files(disk)
        for name, write in writes(disk).items():
            message = error_of(write)
            assert message.startswith(f"{disk / name}: cannot be written: no space left on device")
            if name != "path":  # its size is not known in advance
                needed, free = re.findall(r"(\d+) kB|[\d,]+ bytes", message)
                assert 440 <= int(needed) < 470, message
                assert 150 < int(free) < 200, message
            assert tree(disk) == before
        # With the reported space, the same writes succeed.
        remount(disk, f"size={used_bytes(disk) + 4 * 450_000}")
        for write in writes(disk).values():
            write()
        assert tree(disk)["big"] == tree(disk)["path"] == LARGE_TEXT.encode()


def check_read_only(folder: str) -> None:
    disk = Path(folder)
    with small_disk(disk, 200_000):
        before = write_old_files(disk)
        remount(disk, "ro")
        for write in (*writes(disk).values(), Outputs.files([disk / "new" / "text"]).__enter__):
            assert ": read-only file system" in error_of(write)
        assert tree(disk) == before


def check_turned_read_only(place: str) -> None:
    """Linux remounts a failing disk read-only; then not even temporary files can be removed."""
    disk = Path(place)

    def write() -> None:
        with atomic_path(disk / "other") as temporary:
            temporary.write_text("new")
            remount(disk, "ro")

    with small_disk(disk, 200_000):
        before = write_old_files(disk)
        assert error_of(write).startswith(f"{disk / 'other'}: cannot be written: read-only")
        remount(disk, "rw")
        write_lines(disk / "other", ["old"])
        assert tree(disk) == before


@needs_mounts
@pytest.mark.parametrize("check", [check_full, check_read_only, check_turned_read_only])
def test_on_a_small_disk(check: Callable[[str], None], tmp_path: Path) -> None:
    in_a_process(check, tmp_path / "disk", mounts=True)


def check_limited_files(folder: str) -> None:
    disk = Path(folder)
    before = write_old_files(disk)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    for name, write in writes(disk).items():
        assert error_of(write).startswith(f"{disk / name}: cannot be written: file too large")
        assert tree(disk) == before


def test_a_file_size_limit_leaves_the_old_files(tmp_path: Path) -> None:
    in_a_process(check_limited_files, tmp_path / "disk", mounts=False)


def check_forbidden(folder: str) -> None:
    disk = Path(folder)
    before = write_old_files(disk)
    disk.chmod(0o555)
    if os.geteuid() == 0:  # root may write everywhere
        try:
            os.seteuid(65534)
        except OSError:
            sys.stderr.write("this user namespace has no other user than root")
            return
    for write in (*writes(disk).values(), Outputs.files([disk / "text"]).__enter__):
        assert "permission denied" in error_of(write)
    assert tree(disk) == before


def test_a_folder_of_another_user() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if reason := in_a_process(check_forbidden, Path(folder) / "disk", mounts=False):
            pytest.skip(reason)
