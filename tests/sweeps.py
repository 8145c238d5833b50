"""Made-up runs of a sweep, without training."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.base.files import write_lines
from nmt.config import Config, save_config
from nmt.metrics.scores import bleu_score
from tests.support import tiny_config, with_noise, write_environment, write_result


def swept_config(rate: float, seed: int, dropout: float = 0.1) -> Config:
    """Return the configuration of a run of a sweep over two keys and the seed."""
    config = tiny_config(Path("outputs"), seed=seed)
    schedule = replace(config.schedule, peak_learning_rate=rate)
    return replace(config, schedule=schedule, model=replace(config.model, dropout=dropout))


def add_run(
    folder: Path,
    config: Config,
    references: Sequence[str] = (),
    noise: float = 0.2,
    corpus: str = "digits-0123456789ab",
    is_complete: bool = True,
) -> Path:
    """Write the files of a run that has translated `references` with some noise."""
    swept = replace(config, run=replace(config.run, folder=str(folder)))
    save_config(swept, folder / "config.yaml")
    write_environment(folder, corpus)
    hypotheses = with_noise(references or ["a b c d e f"], noise, config.training.seed)
    bleu = bleu_score(hypotheses, references or ["a b c d e f"]).score
    loss = 2 + noise
    records: list[dict[str, Any]] = []
    for update in range(1, 11):
        speed = {"train/target_tokens_per_second": 1000.0, "train/seconds": 2.0 * update}
        records.append({"update": update, "epoch": 1, "train/loss": loss + 5 / update, **speed})
        if update % 2 == 0:
            scores = {"valid/loss": loss + 10 / update - 1, "valid/bleu": bleu * update / 10}
            records.append({"update": update, **scores})
    write_lines(folder / "metrics.jsonl", map(json.dumps, records))
    if references:
        write_lines(folder / "valid_hypotheses.txt", hypotheses)
    if is_complete:
        test = {"bleu": {"score": bleu - 1, "signature": "s"}, "sentences": len(hypotheses)}
        cost = {"training_flops": 1e9, "device_hours": 0.1, "target_tokens": 1000}
        write_result(folder, bleu, loss, test_sets={"test": test}, cost=cost)
    return folder
