import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from nmt.config.serving import ServingLimits
from nmt.metrics.calibration import Calibration
from nmt.trained_model import TrainedModel, save_trained_model
from nmt.translation.confidence import Confidence
from nmt.translation.translator import Translator

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def folder(trained_model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    steps = Calibration([-9.0, -8.0, 0.0], [0.0, 0.5, 1.0])
    confidence = Confidence(steps, Calibration([-9.0, 0.0], [0.0, 100.0]))
    save_trained_model(trained_model, folder, {}, confidence=confidence.to_json())
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that serves a tiny model twice, and its address."""
    copy = shutil.copytree(folder, folder.parent / "copy")
    command = [sys.executable, "-m", "nmt", "serve", f"model={folder} {copy}", "port=0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        stderr: IO[str] = process.stderr  # type: ignore[assignment]
        found = (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in stderr)
        yield process, next(match[0] for match in found if match)
        process.kill()


@pytest.fixture
def served(trained_model: TrainedModel, folder: Path) -> Iterator[Callable[..., Any]]:
    """Makes a client of an application that serves a tiny model, with these limits."""
    pytest.importorskip("fastapi", reason="make install-serve")
    from fastapi.testclient import TestClient  # noqa: PLC0415

    from nmt.server.app import make_app  # noqa: PLC0415
    from nmt.server.languages import ServedModel  # noqa: PLC0415
    from nmt.server.worker import Worker  # noqa: PLC0415

    clients = []

    def make(names: str = "tiny", translator: Any = None, **limits: Any) -> TestClient:
        def plain(num_best: int) -> Translator:
            config = replace(trained_model.config.decoding, num_best=num_best)
            return Translator(trained_model, config)

        given = ServingLimits(**limits)
        models = [
            ServedModel(
                name,
                "en",
                "de",
                Worker(trained_model, folder, translator or plain, given.max_waiting),
            )
            for name in names.split()
        ]
        client = TestClient(make_app(models, given), raise_server_exceptions=False)
        clients.append(client)
        client.__enter__()
        return client

    yield make
    for client in clients:
        client.__exit__(None, None, None)
