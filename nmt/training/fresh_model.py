"""The model before its first update."""

from pathlib import Path

import torch

from nmt.base.errors import UserError
from nmt.config import Config, TiedEmbeddings, differing_values, to_plain
from nmt.data.corpus import PreparedCorpus
from nmt.model.build import build_model
from nmt.trained_model import (
    TrainedModel,
    TrainedModelConfig,
    load_trained_model,
    load_weights,
    model_folder,
    weights_digest,
)

_DROPOUT_KEYS = {"dropout", "attention_dropout", "activation_dropout"}


def new_model(config: Config, corpus: PreparedCorpus, device: torch.device) -> TrainedModel:
    """Create a model with the weights of `training.initial_model`, or with random ones."""
    source, target = corpus.tokenizers()
    torch.manual_seed(config.training.seed)
    network = build_model(config.model, source.vocabulary_size, target.vocabulary_size)
    terminology = config.corpus.terminology > 0
    if config.training.initial_model:
        folder = Path(config.training.initial_model)
        initial = load_trained_model(folder)
        load_weights(network, dict(initial.network.named_parameters()), folder)
        terminology = terminology or initial.config.terminology
    model_config = TrainedModelConfig(
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        joint_vocabulary=config.tokenizer.joint,
        max_source_length=config.batching.max_source_length,
        terminology=terminology,
        model=config.model,
        decoding=config.decoding,
    )
    return TrainedModel(model_config, network.to(device), source, target)


def check(config: Config, corpus_folder: Path) -> None:
    """Raise UserError if a run with this configuration cannot start on this corpus."""
    _check_initial_model(config, corpus_folder)
    _check_tying(config, corpus_folder)


def _check_tying(config: Config, corpus_folder: Path) -> None:
    """Raise UserError if embeddings are tied three ways, but the vocabularies differ."""
    if config.tokenizer.joint or config.model.tied_embeddings is not TiedEmbeddings.three_way:
        return
    source, target = PreparedCorpus(corpus_folder).tokenizers()
    if source.all_pieces() != target.all_pieces():
        raise UserError(
            "model.tied_embeddings=three_way needs one vocabulary, but the tokenizers of the two"
            " languages have different pieces: set model.tied_embeddings=target"
        )


def initial_weights(config: Config) -> str:
    """Return the digest of the weights that the training starts from; empty for random ones."""
    name = config.training.initial_model
    return weights_digest(model_folder(Path(name))) if name else ""


def check_initial_weights(config: Config, stored: str) -> None:
    """Raise UserError if a run did not start from the weights of `training.initial_model`.

    Args:
        config: the experiment.
        stored: the digest of the weights that the run started from; empty for random ones.
    """
    if stored != initial_weights(config):
        name = config.training.initial_model
        raise UserError(
            f"{config.run_folder} did not start from the weights of training.initial_model={name};"
            " name the model that it started from, or choose another run.name"
        )


def _check_initial_model(config: Config, corpus_folder: Path) -> None:
    """Raise UserError if the initial model does not fit `config.model` or the corpus."""
    name = config.training.initial_model
    if not name:
        return
    corpus, initial = PreparedCorpus(corpus_folder), load_trained_model(Path(name))
    of_corpus, direction = corpus.manifest["direction"], initial.config.direction
    if direction != of_corpus:
        raise UserError(
            f"training.initial_model={name} translates {direction}, but the corpus is {of_corpus};"
            " choose another model or another corpus"
        )
    differing = differing_values(to_plain(initial.config.model), to_plain(config.model))
    for key, (old, new) in differing.items():
        if key not in _DROPOUT_KEYS:
            raise UserError(
                f"model.{key}={new} differs from training.initial_model={name}; set"
                f" model.{key}={old}"
            )
    own_files = corpus.source_tokenizer, corpus.target_tokenizer
    for own, given in zip(own_files, initial.tokenizers, strict=True):
        if own.read_bytes() != given.path.read_bytes():
            joint = str(initial.config.joint_vocabulary).lower()
            raise UserError(
                f"training.initial_model={name} uses a different tokenizer than the corpus; set"
                f" tokenizer.path={given.path.parent} tokenizer.joint={joint}"
            )
