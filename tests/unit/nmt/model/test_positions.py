import math

import pytest
import torch

from nmt.model.positions import (
    LearnedPositions,
    RotaryRotation,
    SinusoidalPositions,
    sinusoidal_table,
)


@pytest.mark.parametrize(("position", "i"), [(0, 0), (1, 0), (7, 3), (49, 7)])
def test_the_table_is_the_papers_formula(position: int, i: int) -> None:
    table = sinusoidal_table(50, 16)
    angle = position / 10000 ** (2 * i / 16)
    assert table.shape == (50, 16)
    assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
    assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
def test_a_later_start_continues_the_same_positions(
    kind: type[SinusoidalPositions] | type[LearnedPositions],
) -> None:
    positions = kind(20, 8)
    embeddings = torch.randn(2, 20, 8)
    whole = positions(embeddings, 0)
    torch.testing.assert_close(positions(embeddings[:, 5:9], 5), whole[:, 5:9])
    assert not torch.allclose(whole[:, 5:9], positions(embeddings[:, 5:9], 0))


def test_the_fixed_table_is_no_parameter_and_is_not_saved() -> None:
    positions = SinusoidalPositions(20, 8)
    assert list(positions.parameters()) == []
    assert positions.state_dict() == {}


def test_rotation_depends_on_the_distance_alone() -> None:
    rotation = RotaryRotation(40, 8).double()
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    products = {
        (m, n): float((rotation(query, m) * rotation(key, n)).sum())
        for m, n in [(0, 0), (9, 9), (3, 0), (12, 9), (30, 27), (0, 3)]
    }
    assert products[0, 0] == pytest.approx(products[9, 9], abs=1e-5)
    assert products[3, 0] == pytest.approx(products[12, 9], abs=1e-5)
    assert products[3, 0] == pytest.approx(products[30, 27], abs=1e-5)
    assert abs(products[3, 0] - products[0, 3]) > 1e-3
    assert abs(products[3, 0] - products[0, 0]) > 1e-3


@pytest.mark.parametrize("first", [0, 3, torch.tensor([5, 0])], ids=str)
def test_numbers_of_another_width_are_turned_by_the_same_angles(first: int | torch.Tensor) -> None:
    rotation = RotaryRotation(40, 8)
    heads = torch.randn(2, 7, 3, 8).transpose(1, 2)
    expected = rotation(heads.double(), first).float()  # by the formula
    torch.testing.assert_close(rotation(heads, first), expected)


def test_rotation_keeps_lengths_and_the_first_position() -> None:
    rotation = RotaryRotation(40, 8)
    heads = torch.randn(2, 3, 10, 8)
    turned = rotation(heads, 0)
    torch.testing.assert_close(turned.norm(dim=-1), heads.norm(dim=-1))
    torch.testing.assert_close(turned[:, :, 0], heads[:, :, 0])
    torch.testing.assert_close(rotation(heads[:, :, 4:], 4), turned[:, :, 4:])
