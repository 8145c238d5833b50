from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nmt.errors import UserError
from nmt.part_files import PartFiles

LINES = [b"one\n", b"two\n", b"three\n"]


def lines() -> Iterator[bytes]:
    return iter(LINES)


def add(out: Path, count: int, made_with: dict[str, int] | None = None) -> None:
    """Add so many lines, then die as by a signal."""
    with suppress(KeyboardInterrupt), PartFiles.opened([out], made_with or {}) as parts:
        parts.skip_done(lines(), "in")
        for line in LINES[parts.num_lines :][:count]:
            parts.add([line], [line.decode().upper()])
        raise KeyboardInterrupt


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parts_grow_over_interruptions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 1)
    add(out, 1)
    with PartFiles.opened([out], {}) as parts:
        left = lines()
        assert parts.skip_done(left, "in") == len(LINES[0]) + len(LINES[1])
        assert parts.num_lines == 2
        assert list(left) == LINES[2:]
        parts.add([b"three\n"], ["THREE\n"])
        parts.complete()
    assert out.read_text() == "ONE\nTWO\nTHREE\n"
    assert names(tmp_path) == ["out"]


def test_what_a_kill_left_beyond_what_counts_is_cut_off(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 2)
    with (tmp_path / "out.part").open("a") as stream:
        stream.write("THR")
    add(out, 1)
    assert (tmp_path / "out.part").read_text() == "ONE\nTWO\nTHREE\n"


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("out")
    with PartFiles.opened([tmp_path / "link"], {}) as parts:
        parts.add([b"one\n"], ["ONE\n"])
        parts.complete()
    assert (tmp_path / "out").read_text() == "ONE\n"
    assert names(tmp_path) == ["link", "out"]


def test_a_refusal_leaves_no_new_part(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 1)
    before = names(tmp_path)
    with (
        pytest.raises(UserError, match="was made with"),
        PartFiles.opened([out, tmp_path / "beside"], {"other": 1}),
    ):
        pass
    assert names(tmp_path) == before


def test_nothing_done_leaves_nothing(tmp_path: Path) -> None:
    add(tmp_path / "out", 0)
    assert names(tmp_path) == []


def test_a_refusal_leaves_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 2, {"beam": 1})
    before = (tmp_path / "out.part").read_bytes()
    with (
        pytest.raises(UserError, match=r"made with beam=1 \(now 2\)"),
        PartFiles.opened([out], {"beam": 2}),
    ):
        pass
    for others in ([b"one\n", b"TWO\n"], [b"one\n"]):
        with PartFiles.opened([out], {"beam": 1}) as parts, pytest.raises(UserError, match="first"):
            parts.skip_done(iter(others), "in")
    assert (tmp_path / "out.part").read_bytes() == before
    with PartFiles.opened([out], {"beam": 2}, goes_on=False) as parts:
        parts.skip_done(lines(), "in")
        assert parts.num_lines == 0
    assert names(tmp_path) == []


def test_damage_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 2)
    (tmp_path / "out.part").write_bytes(b"ONE\n")
    with (
        pytest.raises(UserError, match=r"out\.part: is shorter than"),
        PartFiles.opened([out], {}),
    ):
        pass
    (tmp_path / "out.part.json").write_text('{"lines": "many"}')
    with (
        pytest.raises(UserError, match=r"out\.part\.json: is damaged"),
        PartFiles.opened([out], {}),
    ):
        pass
    assert names(tmp_path) == ["out.part", "out.part.json"]


def test_a_kill_while_files_get_their_names_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs = [tmp_path / "out", tmp_path / "out.align"]

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        suppress(KeyboardInterrupt),
        PartFiles.opened(outs, {}) as parts,
    ):
        parts.skip_done(lines(), "in")
        parts.add(LINES, ["a\n", "0-0\n"])
        patch.setattr("nmt.part_files.flush", killed)
        parts.complete()
    assert names(tmp_path) == ["out", "out.align.part", "out.part.json"]
    with PartFiles.opened(outs, {}, replaces=False) as parts:
        parts.skip_done(lines(), "in")
        assert parts.num_lines == len(LINES)
        parts.complete()
    assert [out.read_text() for out in outs] == ["a\n", "0-0\n"]
    assert names(tmp_path) == ["out", "out.align"]


def test_what_stands_there_may_have_to_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("written by people\n")
    with (
        pytest.raises(UserError, match=r"out is there already"),
        PartFiles.opened([out], {}, replaces=False),
    ):
        pass
    assert names(tmp_path) == ["out"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        PartFiles.opened([out], {}) as parts,
        pytest.raises(UserError, match="another process is at work"),
        PartFiles.opened([out], {}),
    ):
        pass
    del parts
    with PartFiles.opened([out], {}):
        pass


def test_who_begins_anew_takes_nothing_from_another_at_work(tmp_path: Path) -> None:
    out = tmp_path / "out"
    add(out, 1)
    with PartFiles.opened([out], {}) as parts:
        kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with (
            pytest.raises(UserError, match="another process is at work"),
            PartFiles.opened([out], {}, goes_on=False),
        ):
            pass
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    del parts


def test_files_that_belong_together(tmp_path: Path) -> None:
    outs = [tmp_path / "out", tmp_path / "out.align"]
    with PartFiles.opened(outs, {}) as parts:
        parts.skip_done(lines(), "in")
        parts.add(LINES, ["a\n", "0-0\n"])
        parts.complete()
    assert [out.read_text() for out in outs] == ["a\n", "0-0\n"]
    assert names(tmp_path) == ["out", "out.align"]
