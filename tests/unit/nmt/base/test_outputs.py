"""Which files and folders a command may replace."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from nmt.base.errors import BusyError, DiskError, UserError
from nmt.base.files import write_json
from nmt.base.outputs import Outputs
from tests.support import refused, tree

Refused = Callable[[Path], object]


def write_file(path: Path, replaces: bool = True) -> list[Path]:
    with Outputs.files([path], replaces=replaces) as outputs:
        outputs.write("new")
    return outputs.paths


def write_folder(path: Path) -> list[Path]:
    with Outputs.folder(path, record="record.json") as outputs, outputs.written() as [folder]:
        (folder / "deeper").mkdir()
        (folder / "deeper" / "text").write_text("new")
    return outputs.written_files()


def test_a_file_is_replaced_only_if_this_is_meant(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    for _ in range(2):
        assert write_file(out) == [out]
    assert tree(tmp_path) == {"new/out": b"new"}
    with refused("out already exists; .*out=", tmp_path):
        write_file(out, replaces=False)


def test_a_folder_is_replaced_only_if_an_earlier_command_wrote_all_of_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()  # an empty one contains nothing to lose
    for _ in range(2):
        assert write_folder(out) == [out / "deeper/text", out / "record.json"]
    assert list(tmp_path.rglob(".*")) == []
    (out / "deeper" / "mine").write_text("mine")
    with refused("deeper/mine: was not written by this command; name another", tmp_path):
        write_folder(out)
    (out / "deeper" / "mine").unlink()
    (out / "empty").mkdir()
    with refused("empty: was not written by this command", tmp_path):
        write_folder(out)
    (out / "empty").rmdir()
    write_json(out / "record.json", {"files": None})
    with refused("was not written by this command", tmp_path):
        write_folder(out)
    with refused("was not written by this command", tmp_path), Outputs.folder(out):
        pass  # a command without a record


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("precious"),
        lambda path: path.symlink_to("nothing"),
        lambda path: path.symlink_to("/dev/null"),
        os.mkfifo,
    ],
)
def test_links_devices_and_pipes_are_refused_at_the_start(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("precious")
    make(tmp_path / "out")
    with (
        refused("is a link|is a device or a pipe", tmp_path),
        Outputs.files([tmp_path / "out"], replaces=True),
    ):
        pass
    with refused("is not a plain folder", tmp_path), Outputs.folder(tmp_path / "out"):
        pass


def test_a_folder_is_no_file_and_a_file_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what . stands for
    (tmp_path / "file").touch()
    for folder in (tmp_path, Path("/proc")):
        with pytest.raises(UserError, match="is a folder; name a file"):
            write_file(folder)
    with refused("is not a plain folder", tmp_path):
        write_folder(tmp_path / "file")
    for name in (".", "..", "/", "/proc"):
        with refused("is not a plain folder"):
            write_folder(Path(name))


def test_files_of_runs_models_exports_and_corpora_are_kept(tmp_path: Path) -> None:
    for names in (
        ["config.yaml", "environment.json"],
        ["config.yaml", "weights.safetensors"],
        ["export.json", "README.md"],
        ["manifest.json", "train-00000.arrow"],
    ):
        folder = tmp_path / names[0] / names[1]
        out = folder / "inner" / "out"
        write_file(out)
        for name in names:
            (folder / name).touch()
        with refused("would replace a file of", tmp_path):
            write_file(out)


def test_inputs_are_kept(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = tmp_path / "in" / "text"
    text.touch()
    (tmp_path / "link").symlink_to("in")
    files, folder = Outputs.files, Outputs.folder
    cases: list[tuple[AbstractContextManager[Outputs], str]] = [
        (files([text], [text], replaces=True), "an input itself"),
        (files([text], [tmp_path / "link"], replaces=True), "a file in an input folder"),
        (folder(tmp_path / "in", [tmp_path / "link" / "text"]), "a folder that contains an input"),
    ]
    for case, name in cases:
        with refused("would overwrite .*, which is read", tmp_path), case:
            pytest.fail(name)
    with files([tmp_path / "in" / "new"], [tmp_path / "in"]):
        pass


def test_what_appears_meanwhile_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, one = tmp_path / "out", tmp_path / "out.1"
    one.write_text("an earlier one")
    with Outputs.files([out]) as outputs:
        out.write_text("mine")
        outputs.write("new")
    assert outputs.paths == [tmp_path / "out.2"]
    assert tree(tmp_path) == {"out": b"mine", "out.1": b"an earlier one", "out.2": b"new"}
    assert capsys.readouterr().err.count("out has appeared or changed meanwhile and is kept") == 1
    with Outputs.files([out], replaces=True) as outputs:
        out.write_text("mine, changed")
        outputs.write("new")
    assert outputs.paths == [tmp_path / "out.3"]
    assert out.read_text() == "mine, changed"


@pytest.mark.parametrize("name", ["mine", "deeper/mine", "deeper/text"])
def test_what_is_saved_into_a_folder_meanwhile_is_kept(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    write_folder(out)
    with Outputs.folder(out, record="record.json") as outputs, outputs.written() as [folder]:
        (folder / "text").write_text("new")
        (out / name).write_text("mine")
    assert outputs.paths == [tmp_path / "out.1"]
    assert (out / name).read_text() == "mine"
    assert tree(tmp_path / "out.1").keys() == {"text", "record.json"}


def test_a_link_that_appears_meanwhile_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    with Outputs.files([tmp_path / "out"]) as outputs:
        (tmp_path / "out").symlink_to("precious")
        outputs.write("new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "out.1").read_text() == "new"


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_command_is_completed_by_the_next(tmp_path: Path, exists: bool) -> None:
    def killed_at(number: int) -> bool:
        """Write in a forked process that is killed at this rename."""
        process = os.fork()
        if process == 0:
            replace, left = os.replace, iter(range(number))

            def kill(*arguments: Path) -> None:
                if next(left, None) is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                replace(*arguments)

            os.replace = kill  # type: ignore[assignment]
            try:
                write_folder(tmp_path / "out")
            finally:
                os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL

    kills = 0
    while True:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        if exists:
            write_folder(tmp_path / "out")
        if not killed_at(kills):
            break
        write_folder(tmp_path / "out")
        assert tree(tmp_path).keys() == {"out/deeper/text", "out/record.json"}
        kills += 1
    assert kills == 2 + exists  # the record, and the folder; before it, the old folder


def test_an_output_is_locked_while_a_command_runs(tmp_path: Path) -> None:
    a, b = tmp_path / "new" / "a", tmp_path / "b"
    with (
        Outputs.files([a, b]),
        pytest.raises(BusyError, match="b is being written by another"),
        Outputs.folder(b),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError), Outputs.files([a, b]):
        raise UserError("an error releases the locks")
    assert write_file(a) == [a]


def test_a_folder_that_became_a_file_and_a_link_to_a_folder_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_folder(out)
    shutil.rmtree(out / "deeper")
    (out / "deeper").write_text("mine")
    with refused("deeper: was not written by this command", tmp_path):
        write_folder(out)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with refused("link exists and is not a plain folder", tmp_path):
        write_folder(tmp_path / "link")


def test_a_file_is_no_folder_of_an_output(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError, match=f"{tmp_path}/file/out: cannot be written"):
        write_file(tmp_path / "file" / "out")


def test_a_record_of_the_command_itself_is_kept(tmp_path: Path) -> None:
    with Outputs.folder(tmp_path / "out", record="r") as outputs, outputs.written() as [folder]:
        (folder / "r").write_text("own")
    assert (tmp_path / "out" / "r").read_text() == "own"


def test_all_files_are_on_the_disk_before_the_first_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, call=call, name=name: (events.append(name), call(*args))
        )
    with Outputs.files([tmp_path / "a", tmp_path / "b"]) as outputs:
        outputs.write("a", "b")
    assert events.index("replace") >= 2
    assert events.count("replace") == 2
