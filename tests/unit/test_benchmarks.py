"""Benchmarks that nobody runs every day have to run all the same."""

from pathlib import Path

import pytest
import torch

from benchmarks import training_on_device
from benchmarks.training_on_device import Sizes, measure


def test_training_is_measured_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_on_device, "_NUM_PAIRS", 300)
    monkeypatch.setattr(training_on_device, "_WARM_UP", 1)
    monkeypatch.setattr(training_on_device, "_CEILING_WIDTHS", {"cpu": 64})
    sizes = Sizes(("tiny",), rounds=2, updates=1, tokens=256, micro_batch=256, vocabulary=90)
    found = measure(torch.device("cpu"), sizes, tmp_path)
    rows = found["models"]["tiny"]
    assert list(rows) == ["ours", "nn.Transformer", "ours, dropout as the preset has it"]
    assert rows["nn.Transformer"]["to_nn_transformer"] == 1.0
    for row in rows.values():
        assert row["lowest"] <= row["target_tokens_per_second"] <= row["highest"]
        assert 0.5 < row["share_not_padding"] <= 1.0
        assert row["share_of_ceiling"] > 0.0
