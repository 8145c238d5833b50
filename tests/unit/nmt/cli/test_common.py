import errno
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nmt.cli.common import named_folders, parse_arguments, run_command
from nmt.errors import UserError
from nmt.training.signals import Interruption


@dataclass(frozen=True)
class Arguments:
    file: str = ""
    count: int = 1
    decoding: dict[str, str] = field(default_factory=dict)


def test_values_are_taken_as_they_are_written() -> None:
    given = ["file=[1], a=b: 01.txt", "count=3", "decoding.beam_size=8"]
    assert parse_arguments(Arguments, "usage", given) == Arguments(
        "[1], a=b: 01.txt", 3, {"beam_size": "8"}
    )


@pytest.mark.parametrize("name", ["${x}.en", "a$b", r"a\${x", r"\\${", "a\\"])
def test_a_file_may_have_the_name_of_an_interpolation(name: str) -> None:
    assert parse_arguments(Arguments, "usage", [f"file={name}"]).file == name


@pytest.mark.parametrize(
    ("names", "folders"),
    [("", []), ("one two", ["one", "two"]), ("'one model' two", ["one model", "two"])],
)
def test_folders_are_split_by_blanks_and_quoted_as_in_a_shell(
    names: str, folders: list[str]
) -> None:
    assert named_folders(names) == [Path(folder) for folder in folders]


def test_many_folders_may_be_longer_than_any_path() -> None:
    folders = [f"outputs/runs/{'x' * 40}_{number}" for number in range(200)]
    assert named_folders(" ".join(folders)) == [Path(folder) for folder in folders]


def test_a_folder_with_a_blank_needs_no_quotation(tmp_path: Path) -> None:
    folder = tmp_path / "it's one"
    folder.mkdir()
    assert named_folders(str(folder)) == [folder]
    with pytest.raises(UserError, match="cannot be split into folders"):
        named_folders(f"{folder} two")


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("fil=x", "fil"),
        ("count=many", "count"),
        ("news.en", "news.en"),
        ("decoding=greedy", r"give decoding\.KEY=VALUE"),
    ],
)
def test_a_wrong_argument_is_named(argument: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_arguments(Arguments, "usage", [argument])


def test_help_prints_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_arguments(Arguments, "how to use it", ["--help"])
    assert left.value.code == 0
    assert "how to use it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "status"),
    [(UserError("mend it"), 2), (Interruption(15), 143), (Interruption(2), 130)],
)
def test_exit_statuses(
    raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise raised

    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == status
    told = capsys.readouterr()
    assert told.err.startswith("error: ")
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_a_library_turned_into_its_own_error_is_one(
    number: signal.Signals, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # As in a shell's foreground.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def command() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(1)
        except BaseException as error:
            raise ValueError("could not determine the shape") from error

    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == status
    assert capsys.readouterr().err == "error: interrupted\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_what_a_library_could_not_write_is_named(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise OSError(number, os.strerror(number), "outputs/theirs.yaml")

    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("error: outputs/theirs.yaml: cannot be written: ")


def test_a_mistake_of_ours_stays_a_traceback() -> None:
    def command() -> None:
        Path("/no/such/file").read_text()

    with pytest.raises(FileNotFoundError):
        run_command(command)
