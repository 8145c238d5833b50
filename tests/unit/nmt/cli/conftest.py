import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.cli import backtranslate, export, score, translate
from nmt.trained_model import TrainedModel, save_trained_model

Run = Callable[..., None]
COMMANDS = {
    "backtranslate": backtranslate,
    "export": export,
    "score": score,
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
        if not any(argument.startswith("model=") for argument in arguments):
            sys.argv.insert(1, f"model={model_folder}")
        COMMANDS[name].main()

    return run
