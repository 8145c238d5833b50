from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from nmt.config.serving import ServingLimits
from nmt.trained_model import TrainedModel
from nmt.translation.translator import Translator


@pytest.fixture
def served(trained_model: TrainedModel) -> Iterator[Callable[..., Any]]:
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
                name, "en", "de", Worker(trained_model, translator or plain, given.max_waiting)
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
