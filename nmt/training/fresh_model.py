"""The model before its first update."""

import torch

from nmt.config import Config
from nmt.data.corpus import PreparedCorpus
from nmt.model.transformer import Transformer
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, TrainedModelConfig


def new_model(config: Config, corpus: PreparedCorpus, device: torch.device) -> TrainedModel:
    """Create a model with initial weights that depend on the seed only."""
    source_tokenizer = Tokenizer(corpus.source_tokenizer)
    target_tokenizer = Tokenizer(corpus.target_tokenizer)
    torch.manual_seed(config.training.seed)
    transformer = Transformer(
        config.model, source_tokenizer.vocabulary_size, target_tokenizer.vocabulary_size
    )
    return TrainedModel(
        TrainedModelConfig(
            source_language=corpus.source_language,
            target_language=corpus.target_language,
            joint_vocabulary=config.tokenizer.joint,
            max_source_length=config.batching.max_source_length,
            model=config.model,
            decoding=config.decoding,
        ),
        transformer.to(device),
        source_tokenizer,
        target_tokenizer,
    )
