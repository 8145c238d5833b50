"""Construction of a model of the configured architecture."""

import torch
from torch import nn

from nmt.config import Architecture, ModelConfig
from nmt.model.comparators.bytenet import ByteNet
from nmt.model.comparators.convolutional import Convolutional
from nmt.model.comparators.recurrent import Recurrent
from nmt.model.encoder_decoder import EncoderDecoder
from nmt.model.transformer import Transformer

_ARCHITECTURES: dict[Architecture, type[EncoderDecoder]] = {
    Architecture.transformer: Transformer,
    Architecture.recurrent: Recurrent,
    Architecture.convolutional: Convolutional,
    Architecture.bytenet: ByteNet,
}


def build_model(config: ModelConfig, source_size: int, target_size: int) -> EncoderDecoder:
    """Build a model with random weights for vocabularies of these sizes."""
    return _ARCHITECTURES[config.architecture](config, source_size, target_size)


def meta_model(config: ModelConfig, source_size: int, target_size: int) -> EncoderDecoder:
    """Build a model on the meta device: its weights have shapes, but no memory."""
    with torch.device("meta"):
        return build_model(config, source_size, target_size)


def count_parameters(model: nn.Module) -> int:
    """Return the number of parameters, frozen ones included; a tied matrix counts once."""
    return sum(parameter.numel() for parameter in model.parameters())
