import pytest
import torch

from nmt.model.attention import (
    KeyValueCache,
    MultiHeadAttention,
    causal_mask,
    reference_attention,
)
from nmt.model.positions import RotaryRotation


def attention(key_width: int = 8, value_width: int = 8, rotary: bool = False) -> MultiHeadAttention:
    torch.manual_seed(0)
    rotation = RotaryRotation(64, key_width) if rotary else None
    return MultiHeadAttention(24, 3, key_width, value_width, 0.0, rotation).double()


def some_mask() -> torch.Tensor:
    """(2, 1, 1, 7): the second sentence has four tokens."""
    return (torch.arange(7) < torch.tensor([[7], [4]]))[:, None, None, :]


@pytest.mark.parametrize(("key_width", "value_width"), [(8, 8), (6, 10)])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("kind", ["all", "mask", "causal"])
def test_it_equals_the_reference(key_width: int, value_width: int, rotary: bool, kind: str) -> None:
    layer = attention(key_width, value_width, rotary)
    hidden = torch.randn(2, 7, 24, dtype=torch.float64)
    mask = {"all": None, "mask": some_mask(), "causal": causal_mask(7)}[kind]
    if kind == "causal":
        output = layer(hidden, hidden, is_causal=True)
    else:
        output = layer(hidden, hidden, mask)
    query = layer.project_query(hidden, first=0)
    key, value = layer.project_memory(hidden, first=0)
    assert key.shape == (2, 3, 7, key_width)
    assert value.shape == (2, 3, 7, value_width)
    heads, weights = reference_attention(query, key, value, mask)
    expected = layer.output(heads.transpose(1, 2).reshape(2, 7, 3 * value_width))
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, layer.weights(hidden, hidden, mask))


def test_weights_are_a_distribution_over_what_may_be_attended_to() -> None:
    hidden = torch.randn(2, 7, 24, dtype=torch.float64)
    weights = attention().weights(hidden, hidden, some_mask())
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 7, dtype=torch.float64))
    assert (weights[1, :, :, 4:] == 0).all()
    assert (weights[1, :, :, :4] > 0).all()


def test_the_causal_mask_is_the_lower_triangle() -> None:
    expected = [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(3).tolist() == expected


def test_the_scale_is_the_root_of_the_key_width() -> None:
    query, key = (
        torch.tensor([[[[3.0, 0, 0, 0]]]]),
        torch.tensor([[[[2.0, 0, 0, 0], [0.0, 0, 0, 0]]]]),
    )
    _, weights = reference_attention(query, key, torch.zeros(1, 1, 2, 4))
    torch.testing.assert_close(weights.flatten(), torch.tensor([3.0, 0.0]).softmax(dim=0))


def test_attention_dropout_falls_in_training_only() -> None:
    layer = MultiHeadAttention(24, 3, 8, 8, 0.5)
    hidden = torch.randn(2, 7, 24)
    layer.eval()
    assert torch.equal(layer(hidden, hidden), layer(hidden, hidden))
    layer.train()
    assert not torch.equal(layer(hidden, hidden), layer(hidden, hidden))


@pytest.mark.parametrize("kind", ["all", "mask", "causal"])
def test_dropout_of_weights_changes_nothing_on_average(kind: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(24, 3, 8, 8, 0.3)
    query, key, value = torch.randn(3, 2, 3, 7, 8)
    how = {"all": {}, "mask": {"mask": some_mask()}, "causal": {"is_causal": True}}[kind]
    expected = layer.eval().mix(query, key, value, **how)
    layer.train()
    found = torch.stack([layer.mix(query, key, value, **how) for _ in range(3000)]).mean(dim=0)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=0.05)


def test_a_cache_grows_and_takes_in_and_drops_sentences() -> None:
    cache = KeyValueCache(2, 3, 1, 4, 5, like=torch.empty(0))
    key, value = torch.randn(3, 1, 1, 4), torch.randn(3, 1, 1, 5)
    cache.put(torch.tensor([0, 4, 2]), key, value)  # sentence 1 has the places 3, 4, 5
    cache.resize(8)
    cache.resize(7)
    cache.add_sentences(1)
    cache.keep(torch.tensor([1, 2]))
    cache.put(torch.tensor([13]), key[:1], value[:1])
    for found, given in zip(cache.first(7), (key, value), strict=True):
        expected = torch.zeros(2, 1, 7, given.size(-1))
        expected[0, 0, 1], expected[1, 0, 6] = given[1, 0, 0], given[0, 0, 0]
        assert torch.equal(found, expected)
