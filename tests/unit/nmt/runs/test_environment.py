from pathlib import Path
from typing import Any

import pytest

from nmt.base.files import read_json, write_json
from nmt.model import cpu
from nmt.runs import experiment
from tests.support import tiny_config


class _TrainingStartedError(Exception):
    pass


def test_every_start_of_a_run_uses_the_library_that_the_run_stored(
    tmp_path: Path, digit_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_selected", "")
    config = tiny_config(tmp_path)
    experiment.open_run(config, digit_corpus)
    path = config.run_folder / "environment.json"
    assert read_json(path)["cpu_library"] == "torch"  # the tests set the environment variable

    def start(*_: Any) -> None:
        raise _TrainingStartedError

    monkeypatch.setattr(experiment, "Trainer", start)
    for library in ("onednn", "torch"):
        write_json(path, {**read_json(path), "cpu_library": library})
        with pytest.raises(_TrainingStartedError):
            experiment.run_experiment(config, digit_corpus)
        assert cpu._selected == library
