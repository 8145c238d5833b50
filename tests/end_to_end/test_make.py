"""The whole way through `make`, as a user goes it, on a small corpus of real or made text."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.files import write_lines

ROOT = Path(__file__).parents[2]
SMALL = (
    "model=tiny model.width=32 model.feed_forward_width=64 tokenizer.vocabulary_size=600"
    " training.max_updates=20 training.validate_every=10 training.log_every=5"
    " schedule.warmup_updates=5 decoding=greedy decoding.max_length_offset=5"
)


def make(target: str, *variables: str) -> subprocess.CompletedProcess[str]:
    # The tests run below `make test`, whose own variables are not meant for this one.
    outer = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    outer.pop("ARGS", None)
    return subprocess.run(
        ["make", target, f"VENV={sys.prefix}", *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**outer, "COLUMNS": "120", "OMP_NUM_THREADS": "1"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 real pairs where the shared corpora are there, else 300 made-up ones."""
    real = ROOT.parent / "shared" / "data" / "tatoeba-en-de"
    folder = tmp_path_factory.mktemp("text")
    for split, number in (("train", 300), ("valid", 8), ("test", 8)):
        for language in ("en", "de"):
            path = real / f"{split}.{language}"
            if path.is_file():
                lines = path.read_text(encoding="utf-8").split("\n")[:number]
            else:
                word = {"en": "dog", "de": "Hund"}[language]
                lines = [f"{word} {n * 7919 % 1000} {word}s {n}." for n in range(number)]
            write_lines(folder / f"{split}.{language}", lines)
    return folder


@pytest.fixture(scope="module")
def trained(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    outputs = tmp_path_factory.mktemp("outputs")
    arguments = f"corpus=folder corpus.path={folder} run.name=e2e run.outputs={outputs} {SMALL}"
    return outputs, make("train", f"ARGS={arguments}")


@pytest.mark.slow
def test_training_ends_with_the_test_bleu(
    trained: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
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
def test_a_translation_has_the_lines_of_its_source(
    trained: tuple[Path, subprocess.CompletedProcess[str]], folder: Path, tmp_path: Path
) -> None:
    outputs, _ = trained
    out = tmp_path / "test.out"
    model = outputs / "latest" / "model"
    ended = make("translate", f"FILE={folder}/test.en", f"MODEL={model}", f"OUT={out}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    # The one decode path: what the run wrote when it scored itself is what translate gives.
    scored = (outputs / "runs/e2e/evaluation/test/hypotheses.txt").read_bytes()
    assert out.read_bytes() == scored
    assert scored.count(b"\n") == 8


@pytest.mark.slow
def test_a_complete_run_is_left_alone_and_another_configuration_is_refused(
    trained: tuple[Path, subprocess.CompletedProcess[str]], folder: Path
) -> None:
    outputs, _ = trained
    arguments = f"corpus=folder corpus.path={folder} run.name=e2e run.outputs={outputs} {SMALL}"
    weights = outputs / "runs/e2e/model/weights.safetensors"
    before = weights.stat().st_mtime_ns
    again = make("train", f"ARGS={arguments}")
    assert again.returncode == 0
    assert "complete" in again.stderr
    other = make("train", f"ARGS={arguments} model.dropout=0.4")
    assert other.returncode == 2
    assert "model.dropout" in other.stderr
    assert weights.stat().st_mtime_ns == before


@pytest.mark.slow
def test_both_reports_are_named(
    trained: tuple[Path, subprocess.CompletedProcess[str]], folder: Path
) -> None:
    outputs, _ = trained
    report = outputs / "runs/e2e/report.html"
    before = report.read_bytes()
    report.unlink()
    arguments = f"corpus=folder corpus.path={folder} run.outputs={outputs} {SMALL}"
    ended = make("report", f"MODEL={outputs}/runs/e2e", f"ARGS={arguments}")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    assert report.read_bytes() == before
    named = [line for line in ended.stderr.splitlines() if line.endswith("report.html")]
    assert [Path(line.strip()).parts[-3] for line in named] == ["corpora", "runs"]
