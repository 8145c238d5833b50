"""What a disk refuses, at the writers of nmt.files: on real disks that are full or read-only."""

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

from nmt.disk_fault import DiskFault
from nmt.errors import UserError
from nmt.files import (
    atomic_folder,
    atomic_path,
    check_writable,
    exclusive,
    write_json,
    write_lines,
    write_texts,
    writing,
)
from tests.small_disk import (
    in_a_process,
    needs_mounts,
    remount,
    small_disk,
    tree,
    used_bytes,
)

MUCH = "a line of some length\n" * 20_000


def fault_of(write: Callable[[], None]) -> str:
    """What `write` tells of the disk, which has to be one line."""
    try:
        write()
    except UserError as error:
        message = str(error)
        assert ": cannot be written: " in message, message
        assert "\n" not in message
        return message
    raise AssertionError("nothing was refused")


def refusing(path: Path, error: Exception, needed: int | None = None) -> Callable[[], None]:
    def write() -> None:
        with writing(path, needed):
            raise error

    return write


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, r"no space left on device; about 1000 TB are needed, [\d.]+ \wB are free"),
        (errno.EDQUOT, "disk quota exceeded; about 1000 TB are needed; remove files of yours"),
        (errno.EFBIG, "file too large; about 1000 TB are needed; raise the limit"),
        (errno.EROFS, "read-only file system; FOLDER can only be read: .*run.outputs=.* OUT="),
        (errno.EACCES, "permission denied; the right to write in FOLDER is missing: "),
        (errno.EPERM, "operation not permitted; the right to write in FOLDER is missing: "),
        (errno.ENOTDIR, "not a directory; FOLDER is no folder; choose another place"),
        (errno.ENAMETOOLONG, "file name too long; choose a shorter one"),
        (errno.EIO, "input/output error; the disk or the way to it fails; give the same command"),
    ],
)
def test_each_refusal_has_its_mend(number: int, told: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "text"
    message = fault_of(refusing(path, OSError(number, os.strerror(number)), needed=10**15))
    expected = rf"{re.escape(str(path))}: cannot be written: {told}"
    assert re.match(expected.replace("FOLDER", re.escape(str(tmp_path))), message), message


@pytest.mark.parametrize(
    "error",
    [
        BrokenPipeError(errno.EPIPE, "Broken pipe"),
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        OSError("without a number"),
        ValueError("a mistake of ours"),
        UserError("something else to mend: No space left on device"),
    ],
)
def test_other_errors_pass_as_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught:
        refusing(tmp_path / "text", error)()
    assert caught.value is error


def test_what_libraries_make_of_a_refusal_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    in_words = RuntimeError("I/O error: No space left on device (os error 28)")
    assert "no space left on device" in fault_of(refusing(path, in_words))
    by_its_cause = RuntimeError("unexpected position")
    by_its_cause.__context__ = OSError(errno.EFBIG, "File too large")
    assert "file too large" in fault_of(refusing(path, by_its_cause))


@pytest.mark.parametrize("part", ["deeper/shard", "../elsewhere"])
def test_the_whole_is_named_and_not_the_part_that_failed(part: str, tmp_path: Path) -> None:
    def write() -> None:
        with atomic_folder(tmp_path / "corpus", 2 * 10**15) as folder:
            place = Path(os.path.normpath(folder / part))
            raise DiskFault(place, errno.ENOSPC, 10**15)

    inside = not part.startswith("..")
    message = fault_of(write)
    assert message.startswith(f"{tmp_path / ('corpus' if inside else 'elsewhere')}: ")
    assert f"about {2 if inside else 1}000 TB are needed" in message


def test_a_fault_comes_whole_out_of_another_process() -> None:
    fault = DiskFault(Path("no/such/place"), errno.EROFS, 34)
    twin = copy.copy(fault)
    assert str(twin) == str(fault)
    assert (twin.path, twin.number, twin.needed) == (fault.path, fault.number, fault.needed)


def test_an_io_error_leaves_what_was_there(tmp_path: Path, monkeypatch) -> None:
    """No simple means makes a real disk fail at `fsync`, so the call itself is made to."""
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
        assert "input/output error" in fault_of(write)
        assert tree(tmp_path) == before


def write_folder(path: Path, text: str) -> None:
    with atomic_folder(path, len(text)) as folder:
        write_json(folder / "small.json", 1)
        write_lines(folder / "big.txt", [text])


def write_to_a_path(path: Path) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(MUCH)


def lock(path: Path) -> None:
    with exclusive(path, lambda: None):
        pass


def writes(disk: Path) -> dict[str, Callable[[], None]]:
    """More than a small disk holds, or a file may hold, by the name that is told."""
    return {
        "value.json": lambda: write_json(disk / "value.json", MUCH),
        "folder": lambda: write_folder(disk / "folder", MUCH),
        "big": lambda: write_texts({disk / "other": "new", disk / "big": MUCH}),
        "path": lambda: write_to_a_path(disk / "path"),
    }


def put_something(disk: Path) -> dict[str, bytes]:
    write_json(disk / "value.json", "old")
    write_folder(disk / "folder", "old")
    write_lines(disk / "other", ["old"])
    return tree(disk)


def check_full(place: str) -> None:
    disk = Path(place)
    with small_disk(disk, 200_000):
        before = put_something(disk)
        for name, write in writes(disk).items():
            told = fault_of(write)
            assert told.startswith(f"{disk / name}: cannot be written: no space left on device; ")
            sizes = [int(size) for size in re.findall(r"(\d+) kB", told)]
            if name != "path":  # where nobody says how long the file will be
                assert 440 <= sizes[0] < 470, told
            assert 150 < sizes[-1] < 200, told
            assert tree(disk) == before
        # With the room that was asked for, the same goes through.
        remount(disk, f"size={used_bytes(disk) + 4 * 450_000}")
        for write in writes(disk).values():
            write()
        assert tree(disk)["big"] == tree(disk)["path"] == MUCH.encode()


def check_no_more_files(place: str) -> None:
    disk = Path(place)
    with small_disk(disk, 200_000, nr_inodes=8):
        before = put_something(disk)
        told = fault_of(lambda: write_folder(disk / "another", "new"))
        assert re.search(r"no space left on device; .*only \d more files can be made there", told)
        assert tree(disk) == before


def check_read_only(place: str) -> None:
    disk = Path(place)
    with small_disk(disk, 200_000):
        before = put_something(disk)
        remount(disk, "ro")
        for write in (*writes(disk).values(), lambda: check_writable(disk / "new" / "text")):
            told = fault_of(write)
            assert f": read-only file system; {disk} can only be read: mount it" in told, told
        assert fault_of(lambda: lock(disk / "run" / ".lock")).startswith(f"{disk / 'run'}: ")
        assert tree(disk) == before


def check_turned_read_only(place: str) -> None:
    """As the system does to a disk that fails: what is half-written cannot even be removed."""
    disk = Path(place)

    def write() -> None:
        with atomic_path(disk / "other") as temporary:
            temporary.write_text("new")
            remount(disk, "ro")

    with small_disk(disk, 200_000):
        before = put_something(disk)
        assert fault_of(write).startswith(f"{disk / 'other'}: cannot be written: read-only")
        remount(disk, "rw")
        write_lines(disk / "other", ["old"])
        assert tree(disk) == before


@needs_mounts
@pytest.mark.parametrize(
    "check", [check_full, check_no_more_files, check_read_only, check_turned_read_only]
)
def test_on_a_small_disk(check: Callable[[str], None], tmp_path: Path) -> None:
    in_a_process(check, tmp_path / "disk", mounts=True)


def check_limited_files(place: str) -> None:
    """A limit on a file's size cuts a write short: some of it is written, and then no more."""
    disk = Path(place)
    before = put_something(disk)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    for name, write in writes(disk).items():
        told = fault_of(write)
        assert told.startswith(f"{disk / name}: cannot be written: file too large; a file may hold")
        assert "a file may hold 100 kB here; " in told, told
        assert tree(disk) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    for write in writes(disk).values():
        write()


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    in_a_process(check_limited_files, tmp_path / "disk", mounts=False)


def check_forbidden(place: str) -> None:
    disk = Path(place)
    before = put_something(disk)
    disk.chmod(0o555)
    if os.geteuid() == 0:  # whom nothing is forbidden
        try:
            os.seteuid(65534)
        except OSError:
            sys.stderr.write("this root is alone in its user namespace: nobody forbids it anything")
            return
    for write in (*writes(disk).values(), lambda: check_writable(disk / "text")):
        assert f"permission denied; the right to write in {disk} is missing" in fault_of(write)
    assert tree(disk) == before


def test_a_folder_that_is_not_ours() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if obstacle := in_a_process(check_forbidden, Path(folder) / "disk", mounts=False):
            pytest.skip(obstacle)
