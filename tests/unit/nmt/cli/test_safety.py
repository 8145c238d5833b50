"""Commands on the folders of strangers and with careless arguments: nothing is lost or obeyed."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from nmt.base.errors import UserError
from nmt.base.files import write_lines
from nmt.base.log import console
from nmt.cli.common import run_command
from nmt.search.hypothesis import Hypothesis
from nmt.translation import forced
from nmt.translation.translator import Translator
from tests.namespaces import ROOT
from tests.support import refused, tree, write_environment

Run = Callable[..., None]
NEW = "model=outputs/runs/new"
TEXT = "source=a.en", "reference=a.de"


@pytest.fixture(autouse=True)
def _files(outputs: Path) -> None:
    """Outputs with three runs, and a text, in the working folder."""
    for name in ("a.en", "a.de"):
        write_lines(Path(name), ["Kalo mine.", "Zuve ra!"])


@pytest.mark.parametrize("name", ["../x", "{}/x", ""])
def test_the_corpus_of_a_stranger_is_a_name(name: str, tmp_path: Path, run: Run) -> None:
    shutil.copytree("outputs/corpora/toy-1", "x")
    write_environment(Path("outputs/runs/new"), name.format(tmp_path))
    with refused(r"new/environment\.json: corpus=.* is not a plain"):
        run("evaluate", NEW)


@pytest.mark.parametrize("part", ["text", "text/test.en"])
def test_text_outside_of_a_corpus_is_not_read(part: str, run: Run) -> None:
    path = Path("outputs/corpora/toy-1", part)
    path.rename("private")
    path.symlink_to(Path("private").absolute())
    with refused("leads out of its folder"):
        run("evaluate", NEW, "out=out")


def test_a_broken_baseline_is_named_and_stops_no_evaluation_of_another(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "weights.safetensors"
    Path("outputs/runs/good/model", name).write_text("broken")
    monkeypatch.setattr(console, "_width", 1000)
    run("evaluate", NEW, "out=out")
    printed = [*capsys.readouterr().err.splitlines(), *caplog.messages]
    [line] = [line for line in printed if f"good/model/{name}: " in line]
    assert "not compared" in line
    assert Path("out/scores.json").exists()
    with pytest.raises(UserError, match=f"good/model/{name}: ") as error:
        run("evaluate", NEW, "out=named", "baseline=outputs/runs/good")
    assert "\n" not in str(error.value)
    assert not Path("named").exists()


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_an_output_folder_that_is_read_loses_nothing(command: str, run: Run) -> None:
    for folder in ("outputs/runs/new/model", "outputs/runs/new", "outputs/corpora/toy-1", "."):
        with refused("out="):
            run(command, NEW, f"out={folder}")


@pytest.mark.parametrize("command", ["translate file=a.en", "score source=a.en target=a.de"])
def test_no_output_replaces_a_file_of_a_run_a_model_or_a_corpus(command: str, run: Run) -> None:
    for name in ("corpora/toy-1/text/test.de", "runs/good/result.json", "runs/new/model/README.md"):
        with refused(r"would replace a file of .*; change out="):
            run(*command.split(), NEW, f"out=outputs/{name}")


def test_an_evaluation_of_another_run_is_not_replaced(run: Run) -> None:
    run("evaluate", "model=outputs/runs/poor", "out=outputs/runs/poor/evaluation/test")
    with refused(r"would replace a file of .*runs/poor; change"):
        run("evaluate", NEW, "out=outputs/runs/poor/evaluation/test")


@pytest.mark.parametrize(("name", "lines"), [("a.en", 4000), ("a.de", 2000)])
def test_scores_of_a_text_that_changes_meanwhile_are_not_written(
    name: str, lines: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("a.en", "a.de"):
        write_lines(Path(text), ["Kalo mine."] * 2000)  # more than a chunk

    def scored(model: object, chunk: list[object], *more: object) -> list[Hypothesis]:
        write_lines(Path(name), ["Ra!"] * lines)
        return [Hypothesis([], -1.0, -1.0, [-1.0])] * len(chunk)

    monkeypatch.setattr(forced, "score_pairs", scored)
    with pytest.raises(UserError, match=f"{name}: was changed while it was read"):
        run("score", NEW, *TEXT[:1], "target=a.de")
    assert not Path("a.de.scores.tsv").exists()


def test_a_test_set_that_changes_meanwhile_is_scored_as_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(Path())
    translate_all = Translator.translate

    def changed(self: Translator, *arguments: object) -> object:
        write_lines(Path("a.en"), ["other"])
        write_lines(Path("a.de"), ["other"])
        return translate_all(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", changed)
    run("evaluate", NEW, *TEXT, "out=out")
    for given, stored in (("a.en", "source.txt"), ("a.de", "reference.txt")):
        assert Path("out", stored).read_bytes() == before[given]


def test_a_huge_beam_of_a_stranger_is_refused(run: Run) -> None:
    config = Path("outputs/runs/new/model/config.yaml")
    text = config.read_text()
    config.write_text(text.replace("beam_size: 3", "beam_size: 10000"))
    with refused(r"decoding\.beam_size=10000: .* less than or equal to 1024"):
        run("translate", "file=a.en", "out=x", NEW)


@pytest.mark.parametrize(
    "command", ["translate file=a.en out=x", "evaluate source=a.en reference=a.de out=x"]
)
def test_exhausted_memory_is_one_sentence_and_leaves_no_file(
    command: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def translate(*arguments: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB")

    monkeypatch.setattr(Translator, "translate", translate)
    before = tree(Path())
    with pytest.raises(SystemExit) as left:
        run_command(lambda: run(*command.split(), NEW))
    assert left.value.code == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "model: " not in line]
    assert line.startswith("error: out of memory: ")
    assert "lower decoding.batch_size or decoding.beam_size" in line
    assert tree(Path()) == before


@pytest.mark.slow
def test_too_few_open_files_are_one_sentence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nmt", "backtranslate", NEW, "file=a.en", "out=x"],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)),
    )
    assert ended.returncode == 2, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if not line.startswith("model: ")]
    assert "open files" in line
