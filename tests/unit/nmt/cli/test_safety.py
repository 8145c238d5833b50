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
from nmt.cli import score
from nmt.cli.common import run_command
from nmt.search.hypothesis import Hypothesis
from nmt.trained_model import load_trained_model, save_trained_model
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


@pytest.mark.parametrize("name", ["../../x", "../x", "{}/x", "..", ".x", ""])
def test_the_corpus_of_a_stranger_is_a_name(name: str, tmp_path: Path, run: Run) -> None:
    shutil.copytree("outputs/corpora/toy-1", "x")
    write_environment(Path("outputs/runs/new"), name.format(tmp_path))
    for command in (["evaluate", NEW], ["report", "run=outputs/runs/new"]):
        with refused(r"new/environment\.json: corpus=.* is not a plain"):
            run(*command)


@pytest.mark.parametrize("part", ["text", "text/test.en", "text/test.de"])
def test_text_outside_of_a_corpus_is_not_read(part: str, run: Run) -> None:
    path = Path("outputs/corpora/toy-1", part)
    path.rename("private")
    path.symlink_to(Path("private").absolute())
    with refused("leads out of its folder"):
        run("evaluate", NEW, "out=out")


def test_the_validation_text_of_a_stranger_is_not_read_outside_of_its_corpus(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree("outputs/corpora/toy-1", "outputs/corpora/toy-2")
    write_environment(Path("outputs/runs/good"), "toy-2")
    path = Path("outputs/corpora/toy-2/text/valid.en")
    path.unlink()
    path.symlink_to("/dev/zero")
    Path("outputs/runs/good").rename("outputs/runs/good\x1b[31m")
    run("evaluate", NEW, "out=out")
    [message] = [each for each in caplog.messages if "is not compared with" in each]
    assert r"outputs/runs/good\x1b[31m is not" in message
    assert "valid.en: leads out of its folder" in message


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model", "config.yaml"])
def test_a_broken_baseline_is_named_and_stops_no_evaluation_of_another(
    name: str,
    run: Run,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


@pytest.mark.parametrize("name", ["train.de.part", "train.en.part", "train.de.part.json"])
def test_backtranslation_keeps_files_of_the_user(name: str, run: Run) -> None:
    Path("out").mkdir()
    Path("out", name).write_text("mine")
    for more in ([], ["resume=false"]):
        with refused(rf"out/{name}: .*choose another file with out="):
            run("backtranslate", NEW, "file=a.en", "out=out", *more)


FOLDERS = ["outputs/runs/new/model", "outputs/runs/new", "outputs/corpora/toy-1", "."]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("command", ["evaluate", "export", "backtranslate file=a.en"])
def test_an_output_folder_that_is_read_loses_nothing(folder: str, command: str, run: Run) -> None:
    before = tree(Path())
    name, *given = command.split()
    try:
        run(name, NEW, *given, f"out={folder}")
    except UserError as error:
        assert "out=" in str(error)  # noqa: PT017 - or it is harmless
        assert tree(Path()) == before
    assert before.items() <= tree(Path()).items()
    load_trained_model(Path("outputs/runs/new"))


@pytest.mark.parametrize("name", ["weights.safetensors", "config.yaml", "tokenizer.model"])
@pytest.mark.parametrize("command", ["translate file=a.en", "score source=a.en target=a.de"])
def test_no_output_replaces_a_file_of_the_model(name: str, command: str, run: Run) -> None:
    for model in (NEW, f"{NEW}/model"):
        with refused(f"{name}: would (overwrite|replace) .*model"):
            run(*command.split(), model, f"out=outputs/runs/new/model/{name}")


RESULTS = ["corpora/toy-1/text/test.de", "runs/good/result.json", "runs/good/model/README.md"]


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("command", ["translate file=a.en", "score source=a.en target=a.de"])
def test_no_output_replaces_a_file_of_a_run_or_a_corpus(name: str, command: str, run: Run) -> None:
    Path("link").symlink_to(Path("outputs", name).absolute())
    with refused("link is a link to .*; name a file with out="):
        run(*command.split(), NEW, "out=link")
    with refused(r"would replace a file of .*; change out="):
        run(*command.split(), NEW, f"out=outputs/{name}")


def test_an_evaluation_of_another_run_is_not_replaced(run: Run) -> None:
    run("evaluate", "model=outputs/runs/poor", "out=outputs/runs/poor/evaluation/test")
    with refused(r"would replace a file of .*runs/poor; change"):
        run("evaluate", NEW, "out=outputs/runs/poor/evaluation/test")


@pytest.mark.parametrize("name", ["a.en", "a.de"])
@pytest.mark.parametrize("change", ["more", "fewer", "other"])
def test_scores_of_a_text_that_changes_meanwhile_are_not_written(
    name: str, change: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("a.en", "a.de"):
        write_lines(Path(text), ["Kalo mine."] * 2000)  # more than a chunk

    def scored(model: object, chunk: list[object], *more: object) -> list[Hypothesis]:
        write_lines(Path(name), ["Ra!"] * {"more": 4000, "fewer": 2, "other": 2000}[change])
        return [Hypothesis([], -1.0, -1.0, [-1.0])] * len(chunk)

    monkeypatch.setattr(score, "score_pairs", scored)
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


WORK = ["translate file=a.en out=x", "evaluate source=a.en reference=a.de out=x"]


@pytest.mark.parametrize("command", WORK)
def test_a_huge_beam_of_a_stranger_is_refused(command: str, run: Run) -> None:
    config = Path("outputs/runs/new/model/config.yaml")
    text = config.read_text()
    config.write_text(text.replace("beam_size: 3", "beam_size: 10000"))
    with refused(r"decoding\.beam_size=10000: .* less than or equal to 1024"):
        run(*command.split(), NEW)


@pytest.mark.parametrize("command", WORK)
def test_huge_weights_are_one_sentence(command: str, run: Run) -> None:
    model = load_trained_model(Path("outputs/runs/new"))
    model.network.output_weight.mul_(1e30)
    save_trained_model(model, Path("huge"), {})
    with refused(r"^the scores of the model are not finite: its weights"):
        run(*command.split(), "model=huge")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
)
@pytest.mark.parametrize("command", WORK)
def test_exhausted_memory_is_one_sentence_and_leaves_no_file(
    command: str,
    error: RuntimeError,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def translate(*arguments: object) -> None:
        raise error

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
@pytest.mark.parametrize(("limit", "status"), [(6, 2), (12, 0)])
def test_few_open_files_are_enough_or_one_sentence(limit: int, status: int) -> None:
    command = "backtranslate", NEW, "file=a.en", "out=x"
    ended = subprocess.run(
        [sys.executable, "-m", "nmt", *command],
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("model: ")]
    assert ended.returncode == status, ended.stderr
    if status:
        assert len(lines) == 1
        assert "open files" in lines[0]
