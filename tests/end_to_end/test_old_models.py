"""Model folders that earlier versions wrote still load and translate."""

from pathlib import Path

import pytest

from nmt.decoding.translator import Translator
from nmt.trained_model import load_trained_model
from tests.support import reversed_digits

MODELS = sorted((Path(__file__).parents[1] / "models").glob("digits_v*"))


def test_there_is_a_folder_of_every_format_version() -> None:
    assert [path.name for path in MODELS] == ["digits_v1"]


@pytest.mark.parametrize("folder", MODELS, ids=lambda path: path.name)
def test_it_still_reverses_digits(folder: Path) -> None:
    model = load_trained_model(folder)
    pairs = reversed_digits(40, seed=99)
    translations = Translator(model, model.config.decoding).translate([s for s, _ in pairs])
    right = [best[0].text == target for best, (_, target) in zip(translations, pairs, strict=True)]
    assert sum(right) >= 38
