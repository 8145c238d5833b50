import pytest
import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.model.attention import attention_weights
from nmt.model.comparators.window import WindowAttention, window_mask
from nmt.model.positions import RotaryPositions


def attention(window: int, rotary: bool = False, dropout: float = 0.0) -> WindowAttention:
    torch.manual_seed(0)
    config = ModelConfig(
        width=12,
        num_heads=2,
        value_width=5,
        attention_dropout=dropout,
        attention_window=window,
    )
    return WindowAttention(config, RotaryPositions(64, 6) if rotary else None)


@pytest.mark.parametrize(
    ("window", "is_causal", "attended"),
    [
        (3, False, ["11000", "11100", "01110", "00111", "00011"]),
        (2, False, ["10000", "11000", "01100", "00110", "00011"]),
        (3, True, ["10000", "11000", "11100", "01110", "00111"]),
        (1, True, ["10000", "01000", "00100", "00010", "00001"]),
    ],
)
def test_positions_of_a_window(window: int, is_causal: bool, attended: list[str]) -> None:
    found = window_mask(5, window, is_causal).int().tolist()
    assert ["".join(map(str, row)) for row in found] == attended


@pytest.mark.parametrize("window", [1, 2, 3, 4, 8, 20])
@pytest.mark.parametrize("length", [1, 4, 13, 16])
@pytest.mark.parametrize("kind", ["encoder", "padded", "decoder"])
@pytest.mark.parametrize("rotary", [False, True])
def test_blocks_equal_full_attention_with_a_mask(
    window: int, length: int, kind: str, rotary: bool
) -> None:
    layer = attention(window, rotary).double()
    hidden = torch.randn(2, length, 12, dtype=torch.float64, requires_grad=True)
    is_real, is_causal = torch.ones(2, length, dtype=torch.bool), kind == "decoder"
    if kind == "padded":
        is_real[1, length // 3 + 1 :] = False
    given = None if is_causal else is_real[:, None, None]
    mask = window_mask(length, window, is_causal) & is_real[:, None, None]
    mask |= torch.eye(length, dtype=torch.bool)  # for padding with padding around it
    query, key, value = layer.project_self(hidden)
    expected = layer.output(layer.attend(query, key, value, mask))
    found = layer(hidden, hidden, given, is_causal=is_causal)
    torch.testing.assert_close(found, expected)
    weights = layer.weights(hidden, hidden, given, is_causal=is_causal)
    torch.testing.assert_close(weights, attention_weights(query, key, mask))
    gradients = [torch.autograd.grad(heads.sin().sum(), hidden)[0] for heads in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("length", [3, 9])
def test_dropout_of_weights_keeps_the_mean(length: int) -> None:
    layer = attention(window=4, dropout=0.3)
    hidden = torch.randn(1, length, 12).expand(3000, -1, -1).contiguous()
    expected = layer.eval()(hidden[:1], hidden[:1])[0]
    found = layer.train()(hidden, hidden)
    assert found.std(dim=0).min() > 0.01
    torch.testing.assert_close(found.mean(dim=0), expected, rtol=0.0, atol=0.05)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_memory_grows_linearly_with_the_length(dropout: float) -> None:
    def saved(length: int) -> int:
        """Number of values that the backward pass keeps."""
        sizes: list[int] = []
        layer, hidden = attention(window=8, dropout=dropout), torch.randn(1, length, 12)

        def pack(tensor: Tensor) -> Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            layer(hidden, hidden, is_causal=True)
        return sum(sizes)

    assert saved(512) - saved(256) == (saved(256) - saved(128)) * 2
