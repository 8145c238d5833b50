from typing import Any

import pytest
import torch

from nmt.model.attention import MultiHeadAttention, attention_weights, causal_mask
from nmt.model.positions import RotaryPositions
from tests.support import tiny_model_config


def attention(
    key_width: int = 8, value_width: int = 8, rotary: bool = False, dropout: float = 0.0
) -> MultiHeadAttention:
    torch.manual_seed(0)
    widths = {"width": 24, "num_heads": 3, "key_width": key_width, "value_width": value_width}
    config = tiny_model_config(**widths, attention_dropout=dropout)
    return MultiHeadAttention(config, RotaryPositions(64, key_width) if rotary else None)


def some_mask() -> torch.Tensor:
    """(2, 1, 1, 7): the second sentence has four tokens."""
    return (torch.arange(7) < torch.tensor([[7], [4]]))[:, None, None, :]


KINDS: dict[str, dict[str, Any]] = {
    "all": {},
    "mask": {"mask": some_mask()},
    "causal": {"is_causal": True},
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@kinds
@pytest.mark.parametrize(("key_width", "value_width"), [(8, 8), (6, 10)])
@pytest.mark.parametrize("rotary", [False, True])
def test_attention_equals_equation_1(
    key_width: int, value_width: int, rotary: bool, kind: dict[str, Any]
) -> None:
    layer = attention(key_width, value_width, rotary).double()
    hidden = torch.randn(2, 7, 24, dtype=torch.float64)
    mask = causal_mask(7) if "is_causal" in kind else kind.get("mask")
    query, key, value = layer.project_self(hidden)
    assert key.shape == (2, 3, 7, key_width)
    assert value.shape == (2, 3, 7, value_width)
    weights = attention_weights(query, key, mask)
    heads = weights @ value
    expected = layer.output(heads.transpose(1, 2).reshape(2, 7, 3 * value_width))
    torch.testing.assert_close(layer(hidden, hidden, **kind), expected)
    torch.testing.assert_close(weights, layer.weights(hidden, hidden, **kind))


def test_products_are_divided_by_the_root_of_the_key_width() -> None:
    query = torch.tensor([[[[3.0, 0, 0, 0]]]])
    key = torch.tensor([[[[2.0, 0, 0, 0], [0.0, 0, 0, 0]]]])
    weights = attention_weights(query, key)
    torch.testing.assert_close(weights.flatten(), torch.tensor([3.0, 0.0]).softmax(dim=0))


@kinds
def test_attention_dropout_keeps_the_mean(kind: dict[str, Any]) -> None:
    layer = attention(dropout=0.3)
    query, key, value = torch.randn(3, 2, 3, 7, 8)
    expected = layer.eval().attend(query, key, value, **kind)
    layer.train()
    found = [layer.attend(query, key, value, **kind) for _ in range(3000)]
    torch.testing.assert_close(torch.stack(found).mean(dim=0), expected, rtol=0.0, atol=0.05)
