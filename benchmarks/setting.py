"""Shared by benchmarks: a configuration, made-up text and corpora, and separate processes."""

import contextlib
import multiprocessing as mp
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from data_prep.prepare import prepare
from data_prep.progress import Reporter
from nmt.base.files import write_json, write_lines
from nmt.base.layout import MANIFEST_FILE
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
from nmt.data.corpus import PreparedCorpus, shard_name, write_shard
from nmt.data.loader import UpdateWork
from nmt.model.cpu_library import select_library
from nmt.tokenizer import JOINT_FILE
from nmt.training import distributed
from nmt.training.measured_library import measure_library
from nmt.training.trainer import Trainer

VOCABULARY_SIZE = 8000

_NUM_SPECIAL = 4


def bench_config(text_folder: str, folder: Path) -> Config:
    """Return the experiment that is measured on CPUs.

    Args:
        text_folder: aligned text; made-up text is used if the folder does not exist.
        folder: where made-up text and outputs are written.
    """
    text = Path(text_folder)
    if not text.is_dir():
        text = folder / "text"
        write_made_up_text(text, {"train": 20_000, "valid": 100})
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
    """Return the name of the text that `bench_config` uses."""
    text = Path(text_folder)
    return text.name if text.is_dir() else "made up"


def write_made_up_text(folder: Path, sizes: dict[str, int]) -> None:
    """Write splits of made-up words with the lengths of image captions, `en` and `de`."""
    random = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(12_000)]
    for split, number in sizes.items():
        lengths = np.clip(random.lognormal(2.4, 0.35, number), 3, 40).astype(int)
        for language, factor in (("en", 1.0), ("de", 0.95)):
            ranks = [random.zipf(1.3, max(1, int(n * factor))) % len(words) for n in lengths]
            lines = [" ".join(words[rank] for rank in row) for row in ranks]
            write_lines(folder / f"{split}.{language}", lines)


def wmt14_lengths(
    random: np.random.Generator, number: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw source and target lengths like WMT14's: 28 tokens on average, with a long tail."""
    source = np.clip(random.lognormal(3.15, 0.6, number), 1, longest).astype(np.int32)
    target = np.clip(source * random.lognormal(0.0, 0.15, number), 1, longest).astype(np.int32)
    return source, target


def write_made_up_corpus(folder: Path, num_pairs: int, vocabulary_size: int, longest: int) -> Path:
    """Write a prepared corpus of random tokens with WMT14's lengths; every word is one token."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    words = [f"w{index}" for index in range(vocabulary_size - _NUM_SPECIAL)]
    with (folder / JOINT_FILE).open("wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(" ".join(words[i : i + 50]) for i in range(0, len(words), 50)),
            model_writer=out,
            model_type="word",
            vocab_size=vocabulary_size,
            character_coverage=1.0,
            minloglevel=2,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=3,
        )
    source, target = wmt14_lengths(random, num_pairs, longest)

    def ids(length: int) -> list[int]:
        return random.integers(_NUM_SPECIAL, vocabulary_size, length).tolist()

    pairs = ((ids(s), ids(t)) for s, t in zip(source, target, strict=True))
    write_shard(folder / shard_name("train", 0), pairs)
    for language in ("en", "de"):
        lines = [" ".join(random.choice(words, length)) for length in source[:8]]
        write_lines(folder / "text" / f"valid.{language}", lines)
    manifest = {"direction": "en-de", "test_splits": []}
    manifest |= {f"{side}_tokenizer": JOINT_FILE for side in ("source", "target")}
    write_json(folder / MANIFEST_FILE, manifest)
    return folder


def prepared(config: Config) -> Path:
    """Prepare the corpus of an experiment if necessary; return its folder."""
    return prepare(config.corpus, config.tokenizer, config.corpora_folder, Reporter(quiet=True))


def trainer_of(config: Config, corpus: Path, threads: int) -> Trainer:
    """Return a trainer at its start, on a prepared corpus."""
    config.run_folder.mkdir(parents=True, exist_ok=True)
    process = distributed.join(TrainingConfig(num_threads=threads))
    model = config.model
    select_library(measure_library(model.width, model.feed_forward_width))
    return Trainer(config, PreparedCorpus(corpus), process)


class _EndedError(Exception):
    """Raised instead of writing the final checkpoint."""


def train(trainer: Trainer) -> None:
    """Train to the last update, without the final checkpoint and validation.

    It patches the trainer, so it needs its own process.
    """

    def end(self: Trainer) -> None:
        del self
        raise _EndedError

    Trainer._save = end  # type: ignore[method-assign]
    with contextlib.suppress(_EndedError):
        trainer.run()
    assert trainer.state.update == trainer.config.training.max_updates


def share_not_padding(works: Sequence[UpdateWork]) -> float:
    """Return the share of positions, of both sides, that hold a token."""
    batches = [batch for work in works for batch in work.micro_batches.values()]
    real = sum(int(b.source_mask.sum()) + b.num_target_tokens for b in batches)
    return real / sum(b.source.numel() + b.target_input.numel() for b in batches)


class Worker:
    """A process that answers requests, one at a time.

    Args:
        make_handler: called in the process; returns the function that answers a request.
        arguments: arguments of `make_handler`.
    """

    def __init__(self, make_handler: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        context = mp.get_context("spawn")
        self._here, there = context.Pipe()
        # daemon: a normal exit of this process ends it.
        self._process = context.Process(
            target=_serve, args=(there, make_handler, *arguments), daemon=True
        )
        self._process.start()
        there.close()  # so that recv() fails when the process dies

    def ask(self, *request: Any, seconds: float = 3600.0) -> Any:
        """Send a request and wait for its answer.

        Raises:
            RuntimeError: the handler failed, its process died, or the time is over.
        """
        try:
            self._here.send(request)
            if not self._here.poll(seconds):
                raise RuntimeError(f"not finished after {seconds:.0f} s")
            is_done, found = self._here.recv()
        except (EOFError, OSError):
            self._process.join()
            status = self._process.exitcode
            raise RuntimeError(f"its process ended with status {status}") from None
        if not is_done:
            raise RuntimeError(found)
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def run_alone(work: Callable[..., Any], *arguments: Any, seconds: float = 3600.0) -> Any:
    """Call a function in a new process, whose memory and failures do not affect this one.

    Raises:
        RuntimeError: the function failed, its process died, or the time is over.
    """
    worker = Worker(partial, work)
    try:
        return worker.ask(*arguments, seconds=seconds)
    finally:
        worker.close()


def _serve(
    there: Connection, make_handler: Callable[..., Callable[..., Any]], *arguments: Any
) -> None:
    try:
        handler = make_handler(*arguments)
        while True:
            there.send((True, handler(*there.recv())))
    except EOFError:
        return
    except Exception as error:
        traceback.print_exc()
        there.send((False, f"{type(error).__name__}: {error}"))
