import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.base.files import write_lines
from nmt.cli import attend, backtranslate, evaluate, export, report, score, subwords, translate
from nmt.trained_model import TrainedModel, save_trained_model
from tests.support import (
    made_up_sentences,
    tiny_trained_model,
    write_corpus,
    write_environment,
    write_result,
)

Run = Callable[..., None]
COMMANDS = {
    "attend": attend,
    "backtranslate": backtranslate,
    "evaluate": evaluate,
    "export": export,
    "report": report,
    "score": score,
    "subwords": subwords,
    "translate": translate,
}


@pytest.fixture(scope="module")
def model_folder(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    save_trained_model(trained_model, folder, {})
    return folder


@pytest.fixture
def run(model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command by name, in this process and an empty folder; `model=` has a default."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        if not any(argument.startswith(("model=", "run=")) for argument in arguments):
            sys.argv.insert(1, f"model={model_folder}")
        COMMANDS[name].main()

    return run


@pytest.fixture
def outputs(tmp_path: Path, tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two completed runs on one corpus, `good` with the better validation, then `new`."""
    outputs, sentences = tmp_path / "outputs", made_up_sentences(12, seed=5)
    pairs = list(zip(sentences, reversed(sentences), strict=True))
    splits = {"train": pairs, "valid": pairs[:4], "test": pairs[:6]}
    write_corpus(outputs / "corpora/toy-1", tokenizer_path, splits)
    for number, (name, bleu) in enumerate({"poor": 1.0, "good": 2.0, "new": 1.5}.items()):
        run = outputs / "runs" / name
        save_trained_model(tiny_trained_model(tokenizer_path, seed=number), run / "model", {})
        write_lines(run / "config.yaml", ["corpus: {name: toy, direction: en-de}"])
        write_environment(run)
        write_result(run, bleu, loss=3.0)
        os.utime(run / "result.json", (1000 + number, 1000 + number))
    monkeypatch.chdir(tmp_path)
    return outputs
