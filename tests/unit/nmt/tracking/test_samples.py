from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.tracking.pictures import draw_attention
from nmt.tracking.samples import ValidationSamples
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences


@pytest.fixture
def texts() -> list[str]:
    return made_up_sentences(50)


def test_the_same_evenly_spaced_sentences_are_selected(
    trained_model: TrainedModel, texts: list[str]
) -> None:
    chosen = ValidationSamples(trained_model, texts, texts)
    first = chosen.sentences(texts)
    assert len(first) == 20
    assert first[0].source == texts[0]
    assert all(each.chrf == 100 for each in first)
    other = chosen.sentences(["x"] * 50)
    assert [each.source for each in other] == [each.source for each in first]
    assert {each.translation for each in other} == {"x"}


def test_pictures_leave_weights_random_state_and_mode_as_they_are(
    trained_model: TrainedModel, texts: list[str]
) -> None:
    weights = {key: value.clone() for key, value in trained_model.network.state_dict().items()}
    chosen = ValidationSamples(trained_model, texts, texts)
    state = torch.get_rng_state()
    trained_model.network.train()
    try:
        # Also of translations that are empty or far too long.
        for hypotheses in (texts, [""] * 50, ["la " * 500] * 50):
            pictures = chosen.pictures(hypotheses)
            assert len(pictures) == 3
            assert trained_model.network.training
    finally:
        trained_model.network.eval()
    assert torch.equal(torch.get_rng_state(), state)
    after = trained_model.network.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in weights.items())


def test_an_error_in_a_picture_leaves_the_model_in_training_mode(
    trained_model: TrainedModel, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(trained_model.network), "attention_maps", fail)
    trained_model.network.train()
    try:
        with pytest.raises(MemoryError):
            ValidationSamples(trained_model, texts, texts).pictures(texts)
        assert trained_model.network.training
    finally:
        trained_model.network.eval()


def test_a_picture_shows_large_weights_dark(tmp_path: Path) -> None:
    picture = draw_attention(torch.eye(2), ["ß", "</s>"], ["ä", "</s>"], "ä")
    assert picture.caption == "ä"
    assert picture.pixels.dtype == np.uint8
    rows = picture.pixels[-40:-4, -40:-4]  # four cells of 18 pixels
    assert (rows[5, 5] < 160).all()
    assert (rows[5, 30] == 255).all()
