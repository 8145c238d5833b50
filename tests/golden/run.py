"""The run whose losses are golden: a tiny model of every variant on a small fixed corpus."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.config import (
    Activation,
    Architecture,
    Config,
    NormPlacement,
    OptimizerConfig,
    OptimizerName,
    Positions,
    TiedEmbeddings,
)
from nmt.data.corpus import PreparedCorpus
from nmt.training.trainer import Trainer
from tests.support import (
    ALONE,
    reversed_digits,
    tiny_config,
    tiny_model_config,
    train_tokenizer,
    write_corpus,
)

GOLDEN_FILE = Path(__file__).with_name("losses.json")
KEYS = ("train/loss", "train/gradient_norm", "valid/loss")

_DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"dropout": 0.1},
    "pre-norm rotary": {"norm": NormPlacement.pre, "positions": Positions.rotary, **_DROPOUT},
    "pre-norm rotary muon": {
        "norm": NormPlacement.pre,
        "positions": Positions.rotary,
        "dropout": 0.1,
    },
    "learned untied gelu": {
        "positions": Positions.learned,
        "tied_embeddings": TiedEmbeddings.none,
        "activation": Activation.gelu,
        "key_width": 6,
        "value_width": 10,
        "dropout": 0.1,
    },
    "experts": {"num_experts": 4, "dropout": 0.1},
    "convolutional": {"architecture": Architecture.convolutional, "dropout": 0.1},
    "bytenet": {"architecture": Architecture.bytenet, "dropout": 0.1},
    "recurrent": {
        "architecture": Architecture.recurrent,
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
        "dropout": 0.1,
    },
}


def golden_config(name: str, outputs: Path) -> Config:
    """A run of ten updates."""
    config = replace(tiny_config(outputs), model=tiny_model_config(**MODELS[name]))
    if name != "paper":
        kind = OptimizerName.muon if name.endswith("muon") else OptimizerName.adamw
        optimizer = OptimizerConfig(name=kind, weight_decay=0.01)
        config = replace(config, optimizer=optimizer)
    return config


def golden_losses(name: str, folder: Path) -> dict[str, list[float]]:
    """Train, and read what every update logged."""
    tokenizer = folder / "tokenizer.model"
    train_tokenizer(tokenizer, [source for source, _ in reversed_digits(300, 0)], 26)
    splits = {"train": reversed_digits(300, 1), "valid": reversed_digits(6, 2)}
    corpus = write_corpus(folder / "corpus", tokenizer, splits)
    config = golden_config(name, folder)
    config.run_folder.mkdir(parents=True)
    Trainer(config, PreparedCorpus(corpus), ALONE).run()
    text = (config.run_folder / "metrics.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    return {key: [record[key] for record in records if key in record] for key in KEYS}
