"""Two users in one folder: what one may not read or write is one sentence for the other."""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest

from nmt.base.files import write_lines
from nmt.cli import evaluate, translate
from nmt.cli.common import run_command
from nmt.runs import train
from nmt.trained_model import save_trained_model
from tests.namespaces import in_a_process
from tests.support import (
    made_up_sentences,
    tiny_config,
    tiny_trained_model,
    write_corpus,
    write_environment,
    write_result,
)

NEW = "model=outputs/runs/new"
WRITTEN: list[tuple[Callable[[], None], list[str]]] = [
    (evaluate.main, [NEW]),
    (translate.main, [NEW, "file=a.en"]),
]
READ: list[tuple[Callable[[], None], list[str]]] = [
    (evaluate.main, ["model=outputs/runs/poor", "out=mine/x"]),  # the text of the corpus
    (translate.main, [NEW, "file=a.en", "out=mine/x"]),
    (translate.main, ["model=outputs/runs/poor", "file=mine/private", "out=mine/x"]),
]


def printed_by(command: Callable[[], None], *arguments: str) -> tuple[object, str]:
    """Run a command; return its status and what it printed after the name of the model."""
    sys.argv = ["command", *arguments]
    with redirect_stderr(StringIO()) as printed:
        try:
            run_command(command)
        except SystemExit as left:
            return left.code, re.sub("^model: .*\n", "", printed.getvalue())
    return 0, printed.getvalue()


def write_outputs(tokenizer: str) -> None:
    pairs = [(line, line) for line in made_up_sentences(4)]
    splits = {"train": pairs, "valid": pairs, "test": pairs}
    write_corpus(Path("outputs/corpora/toy-1"), Path(tokenizer), splits)
    for name in ("poor", "new"):
        run = Path("outputs/runs", name)
        save_trained_model(tiny_trained_model(Path(tokenizer)), run / "model", {})
        write_lines(run / "config.yaml", ["corpus: {name: toy, direction: en-de}"])
        write_environment(run)
        write_result(run, 1.0, loss=3.0)
        os.utime(run / "result.json", (1000, 1000) if name == "new" else None)
    for text in ("a.en", "a.de"):
        write_lines(Path(text), ["Kalo mine."])


def check_commands(folder: str, tokenizer: str) -> None:
    os.chdir(folder)
    write_outputs(tokenizer)
    config = tiny_config(Path("outputs"))
    train.prepare_corpus = lambda _: Path("outputs/corpora/toy-1")  # type: ignore[assignment]
    # Modules are imported while this user may read them.
    status, printed = printed_by(evaluate.main, NEW, "out=of_root")
    assert status == 0, printed
    Path("mine").mkdir()
    Path("mine/private").touch(0o600)
    Path("mine").chmod(0o777)
    os.setresuid(65534, 65534, 0)  # not seteuid: what may be read is asked for the real user
    for main, arguments in WRITTEN:
        status, printed = printed_by(main, *arguments)
        assert status == 2, arguments
        assert re.fullmatch(r"error: .*: cannot be written: permission denied.*\n", printed), (
            printed
        )
    status, printed = printed_by(lambda: void(train.train(config)))
    assert (status, printed.count("\n")) == (2, 1)
    assert "outputs/runs/tiny: cannot be written: permission denied" in printed

    os.setresuid(0, 0, 0)
    for path in ("runs/new/model", "corpora/toy-1/text"):
        Path("outputs", path).chmod(0o700)
    os.setresuid(65534, 65534, 0)
    for main, arguments in READ:
        status, printed = printed_by(main, *arguments)
        assert status == 2, arguments
        assert re.fullmatch(r"error: .*: cannot be read: permission denied\n", printed), printed
    # A model of another user is no baseline, and does not stop an evaluation.
    text = "source=a.en", "reference=a.de"
    status, printed = printed_by(evaluate.main, "model=outputs/runs/poor", *text, "out=mine/x")
    assert status == 0, printed
    assert sorted(path.name for path in Path("mine").iterdir()) == ["private", "x"]


def void(value: object) -> None:
    """Ignore a value."""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_folder_of_another_user_is_one_sentence(tokenizer_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        in_a_process(check_commands, folder, tokenizer_path)
