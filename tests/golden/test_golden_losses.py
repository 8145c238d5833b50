from pathlib import Path

import pytest

from nmt.base.files import read_json
from tests.golden.run import GOLDEN_FILE, KEYS, MODELS, golden_losses

# Above differences between CPUs in the order of summation, and far below any real change.
TOLERANCE = 5e-4


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_the_golden_ones(name: str, tmp_path: Path) -> None:
    """After an intended change of numerics, run `make golden` and name it in the commit."""
    golden, found = read_json(GOLDEN_FILE)[name], golden_losses(name, tmp_path)
    assert [len(found[key]) for key in KEYS] == [10, 10, 2]
    for key in KEYS:
        assert found[key] == pytest.approx(golden[key], rel=TOLERANCE), key
