"""Memory that really runs out: the address space of a training is limited while it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Micro-batches of 64 padded tokens have fitted before the limit is set; those of 500 cannot.
PROGRAM = """
import json, resource, sys
from dataclasses import replace
from pathlib import Path
import torch
from nmt.config import ModelConfig
from nmt.data.corpus import PreparedCorpus
from nmt.data.loader import Position
from nmt.training.distributed import Process
from nmt.training.trainer import Trainer
from tests.support import tiny_config, with_batching

torch.set_num_threads(1)
corpus, outputs = map(Path, sys.argv[1:])
config = tiny_config(outputs, max_updates=3, validate_every=3)
config = with_batching(
    replace(config, model=ModelConfig(
            width=128, num_encoder_layers=2, num_decoder_layers=2, feed_forward_width=4096
        )),
    target_tokens_per_update=1500, tokens_per_micro_batch=8192,
)
config.run_folder.mkdir(parents=True)
trainer = Trainer(config, PreparedCorpus(corpus), Process(0, 1, torch.device("cpu")))
trainer.loader.max_micro_batch_tokens = 64
trainer.update(trainer.loader.work(Position()))
trainer.loader.max_micro_batch_tokens = 8192
status = Path("/proc/self/status").read_text()
size = int(status.partition("VmSize:")[2].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (size + 16_000_000, -1))
state = trainer.run()
print(json.dumps([state.update, trainer.micro_batch_size.times, trainer.micro_batch_size.used]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_training_goes_on_in_the_memory_there_is(digit_corpus: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(digit_corpus), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    updates, times, used = json.loads(ended.stdout)
    assert updates == 3
    assert times >= 1
    assert 32 <= used < 512
