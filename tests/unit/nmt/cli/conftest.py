import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nmt.cli import backtranslate, export, score, translate
from nmt.trained_model import TrainedModel, save_trained_model

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
def run(
    request: pytest.FixtureRequest,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., None]:
    """The command that the test module is about, in this process, with `model=` and in a folder."""
    name = request.module.__name__.rpartition("test_")[2]
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> None:
        has_model = any(argument.startswith("model=") for argument in arguments)
        model = [] if has_model else [f"model={model_folder}"]
        monkeypatch.setattr(sys, "argv", [name, *model, *arguments])
        COMMANDS[name].main()

    return run
