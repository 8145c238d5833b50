import math

import pytest
import torch

from nmt.config import Architecture, ModelConfig
from nmt.model.comparators.convolutional import Convolutional, DotAttention


@torch.no_grad()
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_layers_keep_the_variance_of_the_embeddings(dropout: float) -> None:
    config = ModelConfig(
        architecture=Architecture.convolutional,
        width=256,
        num_encoder_layers=8,
        num_decoder_layers=1,
        dropout=dropout,
    )
    torch.manual_seed(0)
    model = Convolutional(config, 100, 100)
    hidden, mask = torch.randn(4, 50, 256) * 0.1, torch.ones(4, 50, dtype=torch.bool)
    for layer in model.encoder:
        hidden = layer(hidden, mask)
    assert float(hidden.std()) == pytest.approx(0.1, rel=0.15)


def test_attention_equals_equation_2() -> None:
    torch.manual_seed(0)
    queries, memory = torch.randn(1, 4, 6), torch.randn(1, 5, 12)
    mask = torch.tensor([[True, True, True, False, False]])
    contexts, weights = DotAttention()(queries, memory, mask)
    keys, values = memory[0, :3, :6], memory[0, :3, 6:]
    expected = (queries[0] @ keys.T).softmax(dim=-1)
    torch.testing.assert_close(weights[0, :, :3], expected)
    torch.testing.assert_close(contexts[0], expected @ values * math.sqrt(3))
