"""Helpers for tests: tiny tokenizers, models, prepared corpora and configurations."""

import random
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sentencepiece
import torch
from torch import nn

from nmt.base.errors import UserError
from nmt.base.files import write_json, write_lines
from nmt.base.layout import MANIFEST_FILE
from nmt.config import (
    Architecture,
    BatchingConfig,
    BleuTokenizer,
    Compilation,
    Config,
    DecodingConfig,
    EvaluationConfig,
    Layout,
    ModelConfig,
    OptimizerConfig,
    Precision,
    RunConfig,
    ScheduleConfig,
    TokenizerConfig,
    TrainingConfig,
)
from nmt.data.corpus import shard_name, write_shard
from nmt.model.build import build_model
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.tokenizer import JOINT_FILE, Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig
from nmt.training.distributed import Process

Pairs = Sequence[tuple[str, str]]


class SpecialIds(NamedTuple):
    """The special ids of a vocabulary without a tokenizer."""

    pad_id: int
    bos_id: int
    eos_id: int


ALONE = Process(0, 1, torch.device("cpu"))
"""The only process of a training."""

_SYLLABLES = ["ka", "lo", "mi", "ne", "pu", "ra", "so", "ti", "ve", "zu", "wä", "hö"]


def made_up_sentences(count: int, seed: int = 0) -> list[str]:
    """Return sentences of made-up words, with capitals and punctuation."""
    generator = random.Random(seed)
    words = ["".join(generator.choices(_SYLLABLES, k=generator.randint(1, 3))) for _ in range(60)]
    sentences = []
    for _ in range(count):
        chosen = generator.choices(words, k=generator.randint(2, 10))
        sentences.append(" ".join(chosen).capitalize() + generator.choice(".?!"))
    return sentences


def random_words(count: int, seed: int) -> list[str]:
    """Return sentences of twelve words, which are letters from a to j."""
    generator = random.Random(seed)
    return [" ".join(generator.choices("abcdefghij", k=12)) for _ in range(count)]


def with_noise(sentences: Sequence[str], share: float, seed: int) -> list[str]:
    """Return the sentences with this share of their words replaced by z."""
    generator = random.Random(seed)
    return [
        " ".join("z" if generator.random() < share else word for word in line.split())
        for line in sentences
    ]


def reversed_digits(count: int, seed: int, longest: int = 6) -> list[tuple[str, str]]:
    """Return pairs such as ("3 1 4", "4 1 3")."""
    generator = random.Random(seed)
    rows = [
        [str(generator.randrange(10)) for _ in range(generator.randint(2, longest))]
        for _ in range(count)
    ]
    return [(" ".join(row), " ".join(reversed(row))) for row in rows]


def train_tokenizer(
    path: Path, sentences: Sequence[str], vocabulary_size: int, **more: Any
) -> Path:
    """Train a sentencepiece model and write it to `path`."""
    with path.open("wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=out,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
            **{
                "model_type": "bpe",
                "character_coverage": 1.0,
                "unk_id": 0,
                "bos_id": 1,
                "eos_id": 2,
                "pad_id": 3,
                **more,
            },
        )
    return path


def tiny_model_config(**changes: Any) -> ModelConfig:
    """Return a configuration with two layers per stack, width 16 and no dropout."""
    values = {
        "width": 16,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "dropout": 0.0,
        "max_length": 64,
    }
    if changes.get("architecture", Architecture.transformer) is Architecture.transformer:
        values |= {"num_heads": 2, "feed_forward_width": 32}
    return ModelConfig(**{**values, **changes})


def tiny_transformer(
    config: ModelConfig,
    vocabulary_size: int = 23,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> EncoderDecoder:
    """Return a model in evaluation mode, with random norms and biases so that they matter."""
    torch.manual_seed(seed)
    model = build_model(config, vocabulary_size, vocabulary_size)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
            elif isinstance(module, nn.Linear) and module.bias is not None:
                module.bias.uniform_(-0.5, 0.5)
    return model.to(dtype).eval()


def random_ids(*shape: int, seed: int = 1) -> torch.Tensor:
    """Return ids of the vocabulary of `tiny_transformer`, without that of padding."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 23, shape, generator=generator)


def mask_of(lengths: list[int]) -> torch.Tensor:
    """Return the mask of sequences of these lengths."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def tiny_trained_model(
    tokenizer: Path, max_source_length: int = 32, seed: int = 0, **model: Any
) -> TrainedModel:
    """Return a model with random weights and its tokenizer, ready to translate."""
    config = tiny_model_config(**model)
    pieces = Tokenizer(tokenizer)
    transformer = tiny_transformer(config, pieces.vocabulary_size, seed, torch.float32)
    return TrainedModel(
        TrainedModelConfig(
            max_source_length=max_source_length,
            model=config,
            decoding=DecodingConfig(
                beam_size=3, max_length_ratio=1.0, max_length_offset=4, copy_untranslatable=False
            ),
        ),
        transformer.requires_grad_(False),
        pieces,
        pieces,
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file below a folder by relative path."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@contextmanager
def refused(message: str, folder: Path = Path()) -> Iterator[None]:
    """Expect a UserError, and that no file below a folder changes."""
    before = tree(folder)
    with pytest.raises(UserError, match=message):
        yield
    assert tree(folder) == before


def dead_process() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def write_environment(run: Path, corpus: str = "toy-1") -> None:
    """Write `environment.json` of a run that was trained on a corpus."""
    texts = {"run_id": "0", "commit": "", "processor": "", "cpu_library": "torch"}
    values = {**texts, "gpus": [], "processes": 1, "threads": 1, "corpus": corpus}
    write_json(run / "environment.json", values)


def write_result(run: Path, bleu: float, loss: float = 1.0, **more: Any) -> None:
    """Write `result.json` of a completed run with these scores on validation."""
    values = {"chosen": "checkpoint of update 10", "updates": 10, "training_seconds": 20.0}
    valid = {"bleu": bleu, "loss": loss}
    write_json(run / "result.json", {**values, "valid": valid, "test_sets": {}, **more})


def write_corpus(folder: Path, tokenizer: Path, splits: Mapping[str, Pairs]) -> Path:
    """Write a prepared corpus with the splits `train`, `valid` and any test sets."""
    folder.mkdir(parents=True)
    (folder / JOINT_FILE).write_bytes(tokenizer.read_bytes())
    pieces = Tokenizer(tokenizer)
    sources, targets = zip(*splits["train"], strict=True)
    ids = zip(pieces.encode(sources), pieces.encode(targets), strict=True)
    write_shard(folder / shard_name("train", 0), ids)
    for split in splits.keys() - {"train"}:
        write_lines(folder / "text" / f"{split}.en", [source for source, _ in splits[split]])
        write_lines(folder / "text" / f"{split}.de", [target for _, target in splits[split]])
    write_json(
        folder / MANIFEST_FILE,
        {
            "direction": "en-de",
            "source_tokenizer": JOINT_FILE,
            "target_tokenizer": JOINT_FILE,
            "test_splits": sorted(splits.keys() - {"train", "valid"}),
        },
    )
    return folder


def tiny_config(outputs: Path, **training: Any) -> Config:
    """Return a run of ten updates of a tiny model, each of them logged."""
    values = {
        "max_updates": 10,
        "validate_every": 5,
        "log_every": 1,
        "average_checkpoints": 2,
        "num_threads": 1,
        "precision": Precision.float32,
        "compile": Compilation.never,
    }
    return Config(
        tokenizer=TokenizerConfig(vocabulary_size=26),
        model=tiny_model_config(dropout=0.1),
        optimizer=OptimizerConfig(),
        schedule=ScheduleConfig(peak_learning_rate=5e-3, warmup_updates=4),
        batching=BatchingConfig(
            layout=Layout.bucketed,
            target_tokens_per_update=160,
            tokens_per_micro_batch=48,
            max_source_length=32,
            max_target_length=32,
        ),
        training=TrainingConfig(**{**values, **training}),
        decoding=DecodingConfig(
            beam_size=2, max_length_ratio=1.0, max_length_offset=4, copy_untranslatable=False
        ),
        evaluation=EvaluationConfig(bleu_tokenizer=BleuTokenizer("13a")),
        run=RunConfig(name="tiny", outputs=str(outputs)),
    )


def with_batching(config: Config, **batching: Any) -> Config:
    """Return the experiment with other batching."""
    return replace(config, batching=replace(config.batching, **batching))


def assert_same_on_two_threads(compute: Callable[[], torch.Tensor]) -> None:
    """Check that results with two threads are the same every time, bit for bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first, *others = (compute() for _ in range(6))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(first, other) for other in others)
