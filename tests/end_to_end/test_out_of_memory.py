"""Memory that really runs out: the address space of a training is limited while it runs."""

import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nmt.base.files import read_json, write_json
from nmt.config import ModelConfig
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position
from nmt.training.trainer import Trainer
from tests.namespaces import in_a_process
from tests.support import ALONE, tiny_config, with_batching

LARGE = ModelConfig(width=128, num_encoder_layers=2, num_decoder_layers=2, feed_forward_width=4096)


def train(corpus: str, outputs: str) -> None:
    """Set the limit after micro-batches of 64 padded tokens; those of 500 do not fit."""
    resource.setrlimit(resource.RLIMIT_AS, (2**40, -1))  # limited from the start, as by `ulimit -v`
    config = replace(tiny_config(Path(outputs), max_updates=2, validate_every=2), model=LARGE)
    config = with_batching(config, target_tokens_per_update=1000, tokens_per_micro_batch=8192)
    config.run_folder.mkdir(parents=True)
    trainer = Trainer(config, PreparedCorpus(Path(corpus)), ALONE)
    trainer.loader.max_micro_batch_tokens = 64
    trainer.update(trainer.loader.work(Position()))
    trainer.loader.max_micro_batch_tokens = 8192
    status = Path("/proc/self/status").read_text()
    size = int(status.partition("VmSize:")[2].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + 16_000_000, -1))
    updates = trainer.run().update
    limit = trainer.micro_batch_size
    write_json(Path(outputs, "result.json"), [updates, limit.times, limit.used])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_training_continues_in_the_available_memory(digit_corpus: Path, tmp_path: Path) -> None:
    in_a_process(train, digit_corpus, tmp_path)
    updates, times, used = read_json(tmp_path / "result.json")
    assert updates == 2
    assert times >= 1
    assert 32 <= used < 512
