"""The commands as users start them with `make`, on a small corpus."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hydra.core.override_parser.types import Quote, QuotedString

import tests.make
from nmt.base.files import write_lines
from tests.make import make, printed

NAME = 'Jürgen\'s [best], a=b $x "q"'
SMALL = (
    "model=tiny model.width=32 model.feed_forward_width=64 tokenizer.vocabulary_size=600"
    " training.max_updates=20 training.validate_every=10 training.log_every=5"
    " schedule.warmup_updates=5 decoding=greedy decoding.max_length_offset=5"
)


@pytest.fixture
def fake_venv(tmp_path: Path) -> Path:
    return tests.make.fake_venv(tmp_path)


def arguments_of(venv: Path, target: str, *variables: str) -> list[str]:
    [[_, module, *arguments]] = printed(target, *variables, venv=venv)
    return arguments[1:] if module == "nmt" else arguments


@pytest.mark.parametrize(
    ("target", "variables", "arguments"),
    [
        ("train", [], ["experiment=phrasebook_en_de"]),
        ("train", ["DRY_RUN=0"], ["experiment=phrasebook_en_de"]),
        ("train", ["DRY_RUN=1", "GPUS=2"], ["training.num_processes=2", "run.dry_run=true"]),
        ("prepare", ["DRY_RUN=1"], ["run.dry_run=true"]),
        ("train", ["DATA=it's"], ["experiment=own_text", "corpus.path=it's"]),
        ("train", ["ARGS=a=1 b='2 3'"], ["a=1", "b=2 3"]),
        ("translate", ["FILE=a b.en", "MODEL=m"], ["file=a b.en", "model=m"]),
        ("translate", ["TEXT=Hello."], ["file=-"]),
        ("translate", ["FILE=price$HOME.en"], ["file=price$HOME.en"]),
        ("adapt", ["DATA=a b", "MODEL=m"], ["data=a b", "initial_model=m"]),
        ("adapt", ["DATA=a", "GENERAL=c", "OUT=d"], ["general=c", "out=d"]),
        ("evaluate", ["MODEL=a b", "TEST=x"], ["test=x", "model=a b"]),
        ("sweep", ["SWEEP=table3"], ["sweep=table3", "run.name=table3_laptop_scale"]),
        ("sweep", ["SWEEP=table3", "SCALE=paper", "DRY_RUN=1"], ["experiment=paper_scale"]),
        (
            "sweep",
            ["SWEEP=peak_lr", "DRY_RUN=1"],
            ["run.name=peak_lr_phrasebook_en_de", "run.dry_run=true"],
        ),
        ("sweep-report", ["SWEEP=a b"], ["sweep=a b"]),
        ("export", ["FORMAT=ctranslate2"], ["format=ctranslate2"]),
        ("report", ["MODEL=m"], ["run=m"]),
        ("lesson", ["OUT=a b"], ["out=a b"]),
        ("serve", ["MODEL=a b", "PORT=80"], ["model=a b", "port=80"]),
    ],
)
def test_variables_become_arguments(
    fake_venv: Path, target: str, variables: list[str], arguments: list[str]
) -> None:
    found = arguments_of(fake_venv, target, *variables)
    assert found[-len(arguments) :] == arguments


TARGETS = {
    "translate": ["FILE", "MODEL", "OUT"],
    "train": ["EXPERIMENT", "DATA", "GPUS"],
    "adapt": ["MODEL", "DATA", "GENERAL", "OUT"],
    "evaluate": ["TEST", "BASELINE"],
    "score": ["SOURCE", "TARGET"],
    "subwords": ["TEXT", "MODEL"],
    "export": ["FORMAT"],
    "serve": ["MODEL", "HOST"],
    "report": ["MODEL"],
    "reproduce": ["RESULT"],
    "sweep": ["SWEEP"],
    "sweep-report": ["SWEEP"],
}


@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target, names in TARGETS.items() for name in names]
)
def test_values_are_not_executed(fake_venv: Path, tmp_path: Path, target: str, name: str) -> None:
    trace = tmp_path / "trace"
    value = f'Jürgen\'s [best], a=b $x $(shell touch {trace})`touch {trace}`$$HOME "q".en'
    found = arguments_of(fake_venv, target, f"{name}={value}")
    assert any(argument.endswith(f"={value}") for argument in found)
    assert not trace.exists()


def test_names_of_benchmarks_are_not_executed(fake_venv: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    value = f"data $(shell touch {trace})`touch {trace}`;touch {trace}"
    ended = make("bench", f"BENCH={value}", venv=fake_venv)
    assert json.loads(ended.stdout.splitlines()[0])[:2] == ["-m", "benchmarks.data"]
    assert not trace.exists()


def test_the_name_of_python_is_not_executed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = make("install", f"PYTHON=$(shell touch {trace})`touch {trace}`", venv=tmp_path / "new")
    assert "is too old: Python 3.11 or later is needed" in ended.stderr
    assert not trace.exists()


def test_a_text_is_given_as_it_is(fake_venv: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    text = f'It\'s $(shell touch {trace})`touch {trace}`$$HOME "q" -n \\n %s'
    ended = make("translate", f"TEXT={text}", venv=fake_venv)
    assert json.loads(ended.stdout)[-1] == f"{text}\n"
    assert not trace.exists()


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("training.max_updates=100", 'write ARGS="training.max_updates=VALUE"'),
        ("GPU=2", "write GPUS=VALUE"),
        ("file=x", "write FILE=VALUE"),
        ("epochs=3", 'keys of the configuration are given as ARGS="training.max_updates=100"'),
        ("SCALE=paper", "SCALE= selects the experiment of SWEEP=table3"),
        ("MODEL=x", "MODEL= has no effect on make train"),
    ],
)
def test_variables_without_effect_are_rejected(
    fake_venv: Path, variable: str, message: str
) -> None:
    ended = make("train", variable, venv=fake_venv)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert ended.stdout == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 300 pairs."""
    folder = tmp_path_factory.mktemp("text") / NAME
    for split, number in (("train", 300), ("valid", 8), ("test", 8)):
        for language, word in (("en", "dog"), ("de", "Hund")):
            lines = [f"{word} {n * 7919 % 1000} {word}s {n}." for n in range(number)]
            write_lines(folder / f"{split}.{language}", lines)
    return folder


def quoted(**values: Path) -> str:
    """Keys with values in Hydra's quotes, and in those of the shell."""
    texts = {key: QuotedString(str(path), Quote.single) for key, path in values.items()}
    return " ".join(shlex.quote(f"{key}={text.with_quotes()}") for key, text in texts.items())


def arguments_of_run(folder: Path, outputs: Path) -> str:
    paths = quoted(**{"corpus.path": folder, "run.outputs": outputs})
    return f"corpus=folder run.name=e2e {paths} {SMALL}"


Trained = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    outputs = tmp_path_factory.mktemp("outputs") / NAME
    return outputs, make("train", f"ARGS={arguments_of_run(folder, outputs)}")


@pytest.mark.slow
def test_training_ends_with_the_test_bleu(trained: Trained) -> None:
    outputs, ended = trained
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    last = ended.stderr.strip().splitlines()[-1]
    scores = json.loads((outputs / "runs/e2e/evaluation/test/scores.json").read_text())
    bleu = scores["bleu"]
    assert last == f"test BLEU {bleu['score']:.2f}  {bleu['signature']}"
    for name in ("model", "report.html", "metrics.jsonl", "config.yaml"):
        assert f"runs/e2e/{name}" in ended.stderr
        assert (outputs / "runs/e2e" / name).exists()


@pytest.mark.slow
def test_translate_equals_the_translations_of_the_run(
    trained: Trained, folder: Path, tmp_path: Path
) -> None:
    outputs, _ = trained
    out = tmp_path / "test.out"
    model = outputs / "latest" / "model"
    ended = make("translate", f"FILE={folder}/test.en", f"MODEL={model}", f"OUT={out}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    # Equal to the translations that the run was scored with.
    scored = (outputs / "runs/e2e/evaluation/test/hypotheses.txt").read_bytes()
    assert out.read_bytes() == scored
    assert scored.count(b"\n") == 8


@pytest.mark.slow
def test_a_complete_run_is_not_changed(trained: Trained, folder: Path) -> None:
    outputs, _ = trained
    weights = outputs / "runs/e2e/model/weights.safetensors"
    before = weights.stat().st_mtime_ns
    again = make("train", f"ARGS={arguments_of_run(folder, outputs)}")
    assert again.returncode == 0
    assert "complete" in again.stderr
    assert weights.stat().st_mtime_ns == before
