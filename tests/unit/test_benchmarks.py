"""Benchmarks that nobody runs every day have to run all the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import beside_peers, training_on_device
from benchmarks.losses import curves
from benchmarks.training_on_device import Sizes, measure
from nmt.config import NormPlacement
from tests.support import tiny_config


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


@pytest.mark.parametrize("norm", list(NormPlacement))
def test_without_dropout_the_yardstick_learns_what_the_model_learns(
    norm: NormPlacement, tmp_path: Path, digit_corpus: Path
) -> None:
    config = tiny_config(tmp_path)
    config = replace(
        config,
        model=replace(config.model, dropout=0.0, norm=norm),
        optimizer=replace(config.optimizer, max_gradient_norm=1.0),
    )
    found = curves(config, digit_corpus, 1)
    first, tenth = found["ours"]
    assert tenth < first
    assert found["nn.Transformer"] == pytest.approx(found["ours"], abs=2e-3)


def test_other_toolkits_are_measured_where_they_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERS_DIR", str(tmp_path / "environments"))
    assert beside_peers.installed(tmp_path) == []
    for peer in ("ref", "opennmt"):
        python = tmp_path / "environments" / peer / "venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to("/bin/echo")
    assert beside_peers.installed(tmp_path) == ["ref", "opennmt"]
    (tmp_path / "run.sh").write_text('mkdir "$BENCH_DATA"', encoding="utf-8")
    (tmp_path / "duel.py").write_text(_FAKE_DUEL, encoding="utf-8")
    found = beside_peers.measure(tmp_path, beside_peers.Arguments(7, str(tmp_path), 1))
    assert {name: told["tok_s"] for name, told in found.items()} == {
        "ours": 1,
        "ref": 2,
        "opennmt": 3,
    }
    assert found["ref"]["all_steps"] == 7
    (tmp_path / "duel.py").write_text("raise SystemExit(1)", encoding="utf-8")
    assert beside_peers.measure(tmp_path, beside_peers.Arguments(7, str(tmp_path), 1)) == {}


# Instead of starting the jobs, it tells that each has made the updates that it was asked for.
_FAKE_DUEL = """
import json, os, sys
with open(os.environ["BENCH_LOG"], "a") as log:
    for place, job in enumerate(sys.argv[sys.argv.index("--dir") + 2:], 1):
        name, _, command = job.partition("=")
        steps = command.replace("steps=", "--steps ").split("--steps ")[1].split()[0]
        told = {"peer": name, "tok_s": place, "all_steps": int(steps)}
        log.write(json.dumps(told) + "\\n")
"""
