import math

import pytest
import torch

from nmt.config import Positions
from nmt.model.positions import AddedPositions, RotaryPositions, sinusoidal_table
from tests.support import tiny_model_config


@pytest.mark.parametrize(("position", "i"), [(0, 0), (1, 0), (7, 3), (49, 7)])
def test_the_table_equals_the_formula_of_the_paper(position: int, i: int) -> None:
    table = sinusoidal_table(50, 16)
    angle = position / 10000 ** (2 * i / 16)
    assert table.shape == (50, 16)
    assert float(table[position, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
    assert float(table[position, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("kind", [Positions.sinusoidal, Positions.learned])
def test_a_later_start_continues_the_same_positions(kind: Positions) -> None:
    positions = AddedPositions(tiny_model_config(positions=kind))
    embeddings = torch.randn(2, 20, 16)
    whole = positions(embeddings)
    torch.testing.assert_close(positions(embeddings[:, 5:9], 5), whole[:, 5:9])
    assert not torch.allclose(whole[:, 5:9], positions(embeddings[:, 5:9]))


def test_rotated_products_depend_on_the_distance_only() -> None:
    rotary = RotaryPositions(40, 8).double()
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    products = {
        (m, n): float((rotary(query, m) * rotary(key, n)).sum())
        for m, n in [(0, 0), (9, 9), (3, 0), (12, 9), (30, 27), (0, 3)]
    }
    assert products[0, 0] == pytest.approx(products[9, 9], abs=1e-5)
    assert products[3, 0] == pytest.approx(products[12, 9], abs=1e-5)
    assert products[3, 0] == pytest.approx(products[30, 27], abs=1e-5)
    assert abs(products[3, 0] - products[0, 3]) > 1e-3
    assert abs(products[3, 0] - products[0, 0]) > 1e-3


@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("offset", [0, 1])
def test_the_rotation_on_cpus_equals_the_formula(first: int, offset: int) -> None:
    rotary = RotaryPositions(40, 8)
    heads = torch.randn(2, 7, 3, 9)[..., offset : offset + 8].transpose(1, 2)
    expected = rotary(heads.double(), first).float()  # by the formula
    torch.testing.assert_close(rotary(heads, first), expected)


def test_rotation_keeps_norms_and_the_first_position() -> None:
    rotary = RotaryPositions(40, 8)
    heads = torch.randn(2, 3, 10, 8)
    rotated = rotary(heads)
    torch.testing.assert_close(rotated.norm(dim=-1), heads.norm(dim=-1))
    torch.testing.assert_close(rotated[:, :, 0], heads[:, :, 0])
    torch.testing.assert_close(rotary(heads[:, :, 4:], 4), rotated[:, :, 4:])
