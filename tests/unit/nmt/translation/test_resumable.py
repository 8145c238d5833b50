import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nmt.base.errors import UserError
from nmt.base.files import put, write_json
from nmt.translation.resumable import ResumableOutputs
from tests.support import refused, tree

LINES = ["one\n", "two\n", "three\n"]


def add(outs: list[Path], count: int, made_with: dict[str, int] | None = None) -> None:
    """Append so many lines to each output, then leave the block with an exception."""
    with suppress(KeyboardInterrupt), ResumableOutputs.open(outs, made_with or {}) as outputs:
        for line in LINES[outputs.num_lines :][:count]:
            outputs.add([line] * len(outs))
        raise KeyboardInterrupt


def complete(outs: list[Path], **options: bool) -> list[Path]:
    with ResumableOutputs.open(outs, {}, **options) as outputs:
        if not outputs.is_complete:
            for line in LINES[outputs.num_lines :]:
                outputs.add([line] * len(outs))
            outputs.complete()
        return outputs.paths


@pytest.fixture
def outs(tmp_path: Path) -> list[Path]:
    return [tmp_path / "out", tmp_path / "out.align"]


def test_interrupted_outputs_are_continued_after_their_whole_lines(
    tmp_path: Path, outs: list[Path]
) -> None:
    add(outs, 0)
    assert tree(tmp_path) == {}
    add(outs, 2)
    # A kill in a write leaves files of different lengths, and incomplete lines.
    with (tmp_path / "out.part").open("a") as stream:
        stream.write("three\nfou")
    with (tmp_path / "out.align.part").open("a") as stream:
        stream.write("thr")
    with ResumableOutputs.open(outs, {}) as outputs:
        assert outputs.num_lines == 2
        assert tree(tmp_path)["out.part"] == tree(tmp_path)["out.align.part"] == b"one\ntwo\n"
    assert complete(outs) == outs
    assert tree(tmp_path) == dict.fromkeys(("out", "out.align"), "".join(LINES).encode())


def test_other_settings_are_refused_or_start_from_the_beginning(
    tmp_path: Path, outs: list[Path]
) -> None:
    add(outs, 2, {"beam": 1})
    for paths, made_with, message in (
        (outs, {"beam": 2}, r"made with beam=1 \(now 2\)"),
        (outs[:1], {"beam": 1}, r"made with files=\['out', 'out.align'\] \(now \['out'\]\)"),
    ):
        with refused(message, tmp_path), ResumableOutputs.open(paths, made_with):
            pass
    with ResumableOutputs.open(outs[:1], {"beam": 2}, resume=False) as outputs:
        assert outputs.num_lines == 0
        assert tree(tmp_path).keys() == {"out.part", "out.part.json", ".out.lock"}
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("state", [None, [1], {"files": 1}, {"files": ["../x"], "made_with": {}}])
def test_a_damaged_record_is_refused(tmp_path: Path, outs: list[Path], state: Any) -> None:
    add(outs, 2)
    write_json(tmp_path / "out.part.json", state)
    for resume in (True, False):
        with (
            refused(r"out\.part\.json: .*choose another file with out=", tmp_path),
            ResumableOutputs.open(outs, {}, resume=resume),
        ):
            pass


@pytest.mark.parametrize("name", ["out.part", "out.part.json", "out.align.part"])
def test_files_of_the_user_are_kept(tmp_path: Path, outs: list[Path], name: str) -> None:
    (tmp_path / name).write_text("[1]")
    for resume in (True, False):
        with refused(f"{tmp_path / name}: ", tmp_path), ResumableOutputs.open(outs, {}, (), resume):
            pass


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("mine"), os.mkfifo, Path.mkdir])
def test_a_part_that_is_no_file_is_not_written(
    make: Callable[[Path], None], tmp_path: Path, outs: list[Path]
) -> None:
    add(outs, 2)
    (tmp_path / "out.part").rename(tmp_path / "mine")
    make(tmp_path / "out.part")
    with (
        refused(r"out\.part: is not a regular file", tmp_path),
        ResumableOutputs.open(outs, {}),
    ):
        pass


@pytest.mark.parametrize("name", ["out", "out.part", "out.part.json"])
def test_an_input_is_not_overwritten(tmp_path: Path, outs: list[Path], name: str) -> None:
    (tmp_path / name).write_text("text\n")
    with (
        refused(r"would overwrite .*, which is read; change out=", tmp_path),
        ResumableOutputs.open(outs, {}, [tmp_path / name], resume=False),
    ):
        pass


@pytest.mark.parametrize("replaces", [False, True])
def test_files_are_completed_after_a_kill_between_the_renames(
    tmp_path: Path, outs: list[Path], replaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(temporary: Path, path: Path) -> None:
        put(temporary, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("nmt.base.outputs.put", kill)
        complete(outs)
    assert tree(tmp_path).keys() == {"out", "out.align.part", "out.part.json"}
    # The same command finds its outputs complete.
    assert complete(outs, replaces=replaces) == outs
    assert tree(tmp_path) == dict.fromkeys(("out", "out.align"), "".join(LINES).encode())


def test_a_file_that_has_appeared_meanwhile_is_kept(tmp_path: Path, outs: list[Path]) -> None:
    add(outs, 1)
    outs[0].write_text("a reference\n")
    with (
        refused("out already exists", tmp_path),
        ResumableOutputs.open(outs, {}, replaces=False),
    ):
        pass
    outs[0].unlink()
    with ResumableOutputs.open(outs, {}) as outputs:
        outs[0].write_text("a reference\n")
        outputs.add(["two\nthree\n"] * 2)
        outputs.complete()
    assert outputs.paths == [tmp_path / "out.1", tmp_path / "out.align"]
    assert tree(tmp_path)["out"] == b"a reference\n"
    assert tree(tmp_path)["out.1"] == "".join(LINES).encode()


def test_two_processes_do_not_write_the_same_files(tmp_path: Path, outs: list[Path]) -> None:
    with ResumableOutputs.open(outs, {}):
        for other in ([outs[0]], [tmp_path / "other", outs[1]]):
            with (
                pytest.raises(UserError, match="is being written by another process"),
                ResumableOutputs.open(other, {}, resume=False),
            ):
                pass
    assert tree(tmp_path) == {}
