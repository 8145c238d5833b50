import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nmt.base import resumable
from nmt.base.errors import UserError
from nmt.base.files import write_json
from nmt.base.resumable import ResumableOutputs
from tests.support import refused, tree

LINES = [b"one\n", b"two\n", b"three\n"]


def lines() -> Iterator[bytes]:
    return iter(LINES)


def add(out: Path, count: int, made_with: dict[str, int] | None = None) -> None:
    """Add results of so many lines, then leave the block with an exception."""
    with suppress(KeyboardInterrupt), ResumableOutputs.open([out], made_with or {}) as outputs:
        outputs.skip_done(lines(), "in")
        for line in LINES[outputs.num_lines :][:count]:
            outputs.add([line], [line.decode().upper()])
        raise KeyboardInterrupt


def refusal(paths: list[Path], made_with: dict[str, int] | None = None, **options: bool) -> str:
    with (
        pytest.raises(UserError) as error,
        ResumableOutputs.open(paths, made_with or {}, **options),
    ):
        pass
    return str(error.value)


@pytest.mark.parametrize("name", ["out", "link"])
def test_interrupted_outputs_are_continued(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    (tmp_path / "link").symlink_to("out")  # its target is written
    add(out, 1)
    add(out, 1)
    with ResumableOutputs.open([out], {}) as outputs:
        left = lines()
        assert outputs.skip_done(left, "in") == len(LINES[0]) + len(LINES[1])
        assert outputs.num_lines == 2
        assert list(left) == LINES[2:]
        outputs.add([b"three\n"], ["THREE\n"])
        outputs.complete()
    assert tree(tmp_path).keys() == {"link", "out"}
    assert out.read_bytes() == b"ONE\nTWO\nTHREE\n"


def test_a_signal_after_the_record_of_a_chunk_keeps_the_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    add(out, 1)

    def interrupted(path: Path, value: object) -> None:
        write_json(path, value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(resumable, "write_json", interrupted)
        add(out, 1)
    with ResumableOutputs.open([out], {}) as outputs:
        assert outputs.num_lines == 2
    assert (tmp_path / "out.part").read_bytes() == b"ONE\nTWO\n"


def test_an_incomplete_chunk_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 0)
    assert tree(tmp_path) == {}
    add(out, 2)
    with (tmp_path / "out.part").open("a") as stream:
        stream.write("THR")
    add(out, 1)
    assert (tmp_path / "out.part").read_text() == "ONE\nTWO\nTHREE\n"


def test_other_settings_and_other_inputs_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 2, {"beam": 1})
    before = tree(tmp_path)
    assert "made with beam=1 (now 2)" in refusal([out, tmp_path / "beside"], {"beam": 2})
    for others in ([b"one\n", b"TWO\n"], [b"one\n"]):
        with (
            ResumableOutputs.open([out], {"beam": 1}) as outputs,
            pytest.raises(UserError, match="made from other lines than the first 2 of in"),
        ):
            outputs.skip_done(iter(others), "in")
    assert tree(tmp_path) == before
    with ResumableOutputs.open([out], {"beam": 2}, resume=False) as outputs:
        outputs.skip_done(lines(), "in")
        assert outputs.num_lines == 0
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("state", [None, [1], {"lines": "many"}, {"made_with": None}])
def test_a_damaged_state_is_refused(tmp_path: Path, state: Any) -> None:
    add(tmp_path / "out", 2)
    write_json(tmp_path / "out.part.json", state)
    before = tree(tmp_path)
    for resume in (True, False):
        message = refusal([tmp_path / "out"], resume=resume)
        assert f"{tmp_path / 'out.part.json'}: " in message
        assert "choose another file with out=" in message
    assert tree(tmp_path) == before


@pytest.mark.parametrize("changed", [b"ONE\n", b"ONE\n\n\n\n\n", b"ONE\nTWO\nTHREE\nFOUR\n"[::-1]])
def test_a_changed_part_is_refused_and_kept(tmp_path: Path, changed: bytes) -> None:
    add(tmp_path / "out", 2)
    (tmp_path / "out.part").write_bytes(changed)
    assert "out.part: was changed after the last chunk" in refusal([tmp_path / "out"])
    assert (tmp_path / "out.part").read_bytes() == changed


def link(path: Path) -> None:
    path.symlink_to("mine")


@pytest.mark.parametrize("make", [link, os.mkfifo, Path.mkdir])
def test_a_part_that_is_no_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    add(tmp_path / "out", 2)
    (tmp_path / "out.part").rename(tmp_path / "mine")
    make(tmp_path / "out.part")
    assert "out.part: is not a regular file" in refusal([tmp_path / "out"], resume=False)
    assert (tmp_path / "mine").read_bytes()


@pytest.mark.parametrize("name", ["out.part", "out.part.json", "out2.part"])
@pytest.mark.parametrize("resume", [True, False])
def test_files_of_the_user_are_kept(tmp_path: Path, name: str, resume: bool) -> None:
    outs = [tmp_path / "out", tmp_path / "out2"]
    (tmp_path / name).write_text("[1]")
    message = refusal(outs, resume=resume)
    assert message.startswith(f"{tmp_path / name}: ")
    assert tree(tmp_path) == {name: b"[1]"}


@pytest.mark.parametrize("name", ["out", "out.part", "out.part.json", "link"])
def test_an_input_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("out")
    (tmp_path / "out").write_text("text\n")
    (tmp_path / name).write_text("text\n")
    with (
        refused(r"would overwrite .*, which is read; change out=", tmp_path),
        ResumableOutputs.open([tmp_path / "link"], {}, [tmp_path / name], resume=False),
    ):
        pass


def test_several_files_are_completed_also_after_a_kill_between_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs = [tmp_path / "out", tmp_path / "out.align"]

    def kill(path: Path) -> None:
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        suppress(KeyboardInterrupt),
        ResumableOutputs.open(outs, {}) as outputs,
    ):
        outputs.skip_done(lines(), "in")
        outputs.add(LINES, ["a\n", "0-0\n"])
        patch.setattr("nmt.base.resumable.flush", kill)
        outputs.complete()
    assert list(tree(tmp_path)) == ["out", "out.align.part", "out.part.json"]
    assert "out already exists" in refusal(outs, overwrite=False)
    assert tree(tmp_path) == {"out": b"a\n", "out.align": b"0-0\n"}


def test_a_file_that_has_appeared_meanwhile_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 1)
    out.write_text("a reference\n")
    before = tree(tmp_path)
    assert "out already exists" in refusal([out], overwrite=False)
    assert tree(tmp_path) == before


def test_complete_files_and_those_of_a_running_process_are_kept(tmp_path: Path) -> None:
    out, by_hand = tmp_path / "out", tmp_path / "by_hand"
    by_hand.write_text("text\n")
    add(out, 1)
    with ResumableOutputs.open([out], {}):
        before = tree(tmp_path)
        assert "by_hand already exists" in refusal([by_hand], overwrite=False)
        for resume in (True, False):
            assert "is being written by another process" in refusal([out], resume=resume)
        assert tree(tmp_path) == before
    with ResumableOutputs.open([out], {}):
        pass
