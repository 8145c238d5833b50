"""An interrupted and continued run equals an uninterrupted one, bit for bit."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nmt.base.files import read_json
from nmt.base.signals import Interruption
from nmt.config import Config, Layout, OptimizerConfig, OptimizerName
from nmt.trained_model import read_weights, save_trained_model
from nmt.training.trainer import Trainer
from tests.runs import assert_same, killed_after, last_state, metrics, resumed_config, run, timeless
from tests.support import tiny_trained_model, with_batching


def run_until(
    config: Config, corpus: Path, update: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run, and end during the update after `update`: by a signal or abruptly."""
    if end == "kill":
        killed_after(config, corpus, update, monkeypatch)
        return
    original = Trainer._exit_if_signalled

    def signalled(self: Trainer, *arguments: Any) -> None:
        if self.state.update == update:
            os.kill(os.getpid(), signal.SIGINT)
        original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_exit_if_signalled", signalled)
        with pytest.raises(Interruption):
            run(config, corpus)


@pytest.mark.parametrize(
    ("end", "ends_after"),
    [("signal", [5]), ("kill", [5]), ("kill", [7]), ("signal", [3, 4, 9])],
)
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    straight: Config,
    digit_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    ends_after: list[int],
) -> None:
    config = resumed_config(tmp_path)
    for update in ends_after:
        run_until(config, digit_corpus, update, end, monkeypatch)
    assert not (config.run_folder / "result.json").exists()
    run(config, digit_corpus)

    assert metrics(config) == metrics(straight)
    assert_same(last_state(config), last_state(straight))
    for name in ("checkpoints/update_0000010", "model"):
        assert_same(
            read_weights(config.run_folder / name / "weights.safetensors"),
            read_weights(straight.run_folder / name / "weights.safetensors"),
        )
    ours, theirs = (
        folder / "evaluation" / "test" for folder in (config.run_folder, straight.run_folder)
    )
    assert (ours / "hypotheses.txt").read_bytes() == (theirs / "hypotheses.txt").read_bytes()
    scores = [read_json(run.run_folder / "model" / "scores.json") for run in (config, straight)]
    assert timeless(scores[0]) == timeless(scores[1])


@pytest.mark.parametrize("layout", [Layout.bucketed, Layout.packed])
def test_muon_and_packed_updates_are_continued_too(
    digit_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    muon = OptimizerConfig(name=OptimizerName.muon, weight_decay=0.01)
    whole, ended = (
        replace(with_batching(resumed_config(tmp_path / name), layout=layout), optimizer=muon)
        for name in ("whole", "ended")
    )
    run(whole, digit_corpus)
    run_until(ended, digit_corpus, 5, "kill", monkeypatch)
    run(ended, digit_corpus)
    assert metrics(ended) == metrics(whole)
    assert_same(last_state(ended), last_state(whole))


@pytest.mark.parametrize("lora_rank", [0, 2])
def test_a_run_from_given_weights_is_continued_too(
    digit_corpus: Path,
    digit_tokenizer_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lora_rank: int,
) -> None:
    save_trained_model(tiny_trained_model(digit_tokenizer_path), tmp_path / "old", {})
    whole, ended = (resumed_config(tmp_path / name) for name in ("whole", "ended"))
    whole, ended = (
        replace(
            each,
            training=replace(each.training, initial_model=str(tmp_path / "old")),
            optimizer=OptimizerConfig(lora_rank=lora_rank),
        )
        for each in (whole, ended)
    )
    run(whole, digit_corpus)
    run_until(ended, digit_corpus, 3, "kill", monkeypatch)  # before its first checkpoint
    run_until(ended, digit_corpus, 7, "kill", monkeypatch)
    run(ended, digit_corpus)
    assert metrics(ended) == metrics(whole)
    assert_same(last_state(ended), last_state(whole))
    old, ours, theirs = (
        read_weights(folder / "weights.safetensors")
        for folder in (tmp_path / "old", ended.run_folder / "model", whole.run_folder / "model")
    )
    assert_same(ours, theirs)
    assert old["output_weight"].equal(ours["output_weight"]) == bool(lora_rank)
    name = "decoder.0.feed_forward.inner.weight"
    assert not old[name].equal(ours[name])
