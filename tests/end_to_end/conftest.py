from pathlib import Path

import pytest

from nmt.config import Config
from tests.runs import metrics, resumed_config, run


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory, digit_corpus: Path) -> Config:
    """An uninterrupted run of ten updates, over more than one epoch."""
    config = resumed_config(tmp_path_factory.mktemp("straight"))
    run(config, digit_corpus)
    assert {record.get("epoch") for record in metrics(config)} >= {1, 2}
    return config
