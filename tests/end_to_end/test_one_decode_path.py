"""Validation in training, `evaluate` and the command of sacrebleu compute the same BLEU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.base.files import read_json, read_lines
from nmt.cli import evaluate
from nmt.runs.experiment import run_experiment
from nmt.runs.opening import open_run
from nmt.trained_model import load_trained_model, load_weights, read_weights, save_trained_model
from tests.support import reversed_digits, tiny_config, with_batching, write_corpus


@pytest.mark.slow
def test_last_validation_evaluate_and_sacrebleu_agree(
    digit_tokenizer_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {"train": reversed_digits(2000, 1), "valid": reversed_digits(50, 2)}
    corpus = write_corpus(tmp_path / "corpus", digit_tokenizer_path, splits)
    config = with_batching(
        tiny_config(tmp_path, max_updates=60, validate_every=30),
        target_tokens_per_update=400,
        tokens_per_micro_batch=1024,
    )
    open_run(config, corpus)
    run_experiment(config, corpus)
    records = map(json.loads, read_lines(config.run_folder / "metrics.jsonl"))
    logged = [record for record in records if "valid/bleu" in record][-1]
    assert logged["update"] == 60
    assert 0 < logged["valid/bleu"] < 100

    # Save the checkpoint of that validation as a model folder.
    model = load_trained_model(config.run_folder / "model")
    weights = config.run_folder / "checkpoints" / "update_0000060" / "weights.safetensors"
    load_weights(model.network, read_weights(weights), weights)
    save_trained_model(model, tmp_path / "copy", {})
    out = tmp_path / "out"
    arguments = [f"model={tmp_path / 'copy'}", f"corpus={corpus}", "test=valid", f"out={out}"]
    monkeypatch.setattr(sys, "argv", ["evaluate", "device=cpu", *arguments])
    evaluate.main()
    bleu = read_json(out / "scores.json")["bleu"]
    assert bleu["score"] == logged["valid/bleu"]

    files = [str(out / "reference.txt"), "-i", str(out / "hypotheses.txt")]
    command = [sys.executable, "-m", "sacrebleu", *files, "-m", "bleu", "-w", "12"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(ended.stdout)
    assert f"{result['score']:.12f}" == f"{bleu['score']:.12f}"
    assert result["signature"] == bleu["signature"]
