import errno
import os
import signal
import time
from pathlib import Path

import pytest

from nmt.base.errors import UserError
from nmt.cli.common import parse_folders, run_command
from nmt.training.signals import Interruption


@pytest.mark.parametrize(
    ("names", "folders"),
    [("", []), ("one two", ["one", "two"]), ("'one model' two", ["one model", "two"])],
)
def test_folders_are_separated_by_spaces_and_quoted_as_in_a_shell(
    names: str, folders: list[str]
) -> None:
    assert parse_folders(names) == [Path(folder) for folder in folders]


def test_a_list_of_folders_may_be_longer_than_a_path() -> None:
    folders = [f"outputs/runs/{'x' * 40}_{number}" for number in range(200)]
    assert parse_folders(" ".join(folders)) == [Path(folder) for folder in folders]


def test_an_existing_folder_with_a_space_needs_no_quotation(tmp_path: Path) -> None:
    folder = tmp_path / "it's one"
    folder.mkdir()
    assert parse_folders(str(folder)) == [folder]
    with pytest.raises(UserError, match="cannot be split into folders"):
        parse_folders(f"{folder} two")


@pytest.mark.parametrize(
    ("raised", "status"),
    [(UserError("fix it"), 2), (Interruption(15), 143), (Interruption(2), 130)],
)
def test_exit_statuses(
    raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise raised

    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == status
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_reported_even_if_a_library_replaces_its_exception(
    number: signal.Signals, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    # As in the foreground of a shell.
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
def test_a_file_that_a_library_could_not_write_is_reported(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise OSError(number, os.strerror(number), "outputs/theirs.yaml")

    with pytest.raises(SystemExit) as left:
        run_command(command)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("error: outputs/theirs.yaml: cannot be written: ")


def test_a_mistake_in_the_program_has_a_traceback() -> None:
    def command() -> None:
        Path("/no/such/file").read_text()

    with pytest.raises(FileNotFoundError):
        run_command(command)
