"""The training that is measured on CPUs: its configuration, and the real loop without its end."""

import contextlib
from pathlib import Path

import numpy as np

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.config import (
    BatchingConfig,
    Config,
    CorpusConfig,
    CorpusSource,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    TokenizerConfig,
    TrainingConfig,
)
from nmt.data.corpus import PreparedCorpus
from nmt.files import write_lines
from nmt.training import distributed
from nmt.training.run_log import RunLog
from nmt.training.trainer import Trainer

VOCABULARY_SIZE = 8000


def bench_config(text_folder: str, folder: Path) -> Config:
    """The experiment that is measured, on aligned text or, where there is none, on made-up text."""
    text = Path(text_folder)
    if not text.is_dir():
        text = folder / "text"
        _make_up(text)
    rate = 0.1
    return Config(
        corpus=CorpusConfig(name="bench", source=CorpusSource.folder, path=str(text)),
        tokenizer=TokenizerConfig(vocabulary_size=VOCABULARY_SIZE),
        model=ModelConfig(
            width=256,
            num_encoder_layers=3,
            num_decoder_layers=3,
            num_heads=4,
            feed_forward_width=1024,
            dropout=rate,
            attention_dropout=rate,
            activation_dropout=rate,
        ),
        optimizer=OptimizerConfig(max_gradient_norm=1.0),
        batching=BatchingConfig(target_tokens_per_update=4096, tokens_per_micro_batch=8192),
        training=TrainingConfig(),
        run=RunConfig(outputs=str(folder)),
    )


def text_name(text_folder: str) -> str:
    """What a result calls the text of `bench_config`."""
    text = Path(text_folder)
    return text.name if text.is_dir() else "made up"


def _make_up(folder: Path) -> None:
    """Aligned lines of made-up words with the lengths of picture captions."""
    random = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(12_000)]
    for split, number in (("train", 20_000), ("valid", 100)):
        lengths = np.clip(random.lognormal(2.4, 0.35, number), 3, 40).astype(int)
        for language, factor in (("en", 1.0), ("de", 0.95)):
            ranks = [random.zipf(1.3, max(1, int(n * factor))) % len(words) for n in lengths]
            lines = [" ".join(words[rank] for rank in row) for row in ranks]
            write_lines(folder / f"{split}.{language}", lines)


def prepared(config: Config) -> Path:
    """The folder of the experiment's corpus, made where it is not there."""
    return prepare(config.corpus, config.tokenizer, config.corpora_folder, Reporter(quiet=True))


def trainer_of(config: Config, corpus: Path, threads: int) -> Trainer:
    """A fresh training on a prepared corpus."""
    config.run_folder.mkdir(parents=True, exist_ok=True)
    process = distributed.join(TrainingConfig(num_threads=threads))
    return Trainer(config, PreparedCorpus(corpus), process)


class _EndedError(Exception):
    """Training is over."""


def train(trainer: Trainer) -> None:
    """Make all updates; the checkpoint and the validation after them are not measured.

    It patches the program, so its process has to be one of its own.
    """

    def end(self: Trainer, log: RunLog | None) -> None:
        del self, log
        raise _EndedError

    Trainer._save = end  # type: ignore[method-assign]
    with contextlib.suppress(_EndedError):
        trainer.run()
    assert trainer.progress.update == trainer.config.training.max_updates
