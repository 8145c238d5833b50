from dataclasses import replace
from pathlib import Path

import pytest

import nmt
from nmt.base.errors import UserError
from nmt.metrics.calibration import Calibration
from nmt.trained_model import TrainedModel, save_trained_model
from nmt.translation.confidence import Confidence, confidence_of
from nmt.translation.translator import Translator
from tests.support import made_up_sentences


@pytest.fixture(scope="module")
def confidence(trained_model: TrainedModel) -> Confidence:
    sources = made_up_sentences(30)
    translations = [best.text for best, *_ in Translator(trained_model).translate(sources)]
    fitted = Confidence.fit(trained_model, sources, translations, sources)
    assert fitted is not None
    return fitted


def test_each_word_has_a_probability(trained_model: TrainedModel, confidence: Confidence) -> None:
    [[best, *_], [empty]] = Translator(trained_model).translate([made_up_sentences(1)[0], ""])
    found = confidence.of(best, trained_model.target_tokenizer, "de")
    assert len(found.word_confidence) == len(best.text.split())
    assert all(0 <= one <= 1 for one in found.word_confidence)
    assert found.expected_chrf is not None
    assert confidence.of(empty, trained_model.target_tokenizer, "de") == empty


def test_right_words_have_probability_one(trained_model: TrainedModel) -> None:
    sources = made_up_sentences(10)
    right = Confidence.fit(trained_model, sources, sources, sources)
    wrong = Confidence.fit(trained_model, sources, sources, ["zzz"] * 10)
    assert right is not None
    assert wrong is not None
    assert set(right.words.values) == {1.0}
    assert set(wrong.words.values) == {0.0}
    assert right.quality(trained_model, sources, sources, sources)["calibration_error"] == 0
    assert Confidence.fit(trained_model, [], [], []) is None


def test_a_model_folder_has_its_confidence(
    tmp_path: Path, trained_model: TrainedModel, confidence: Confidence
) -> None:
    folder = tmp_path / "model"
    save_trained_model(trained_model, folder, {}, confidence=confidence.to_json())
    [[best, *_]] = nmt.load(folder).translate(made_up_sentences(1), details=True)
    assert best.confidence == pytest.approx(sum(best.word_confidence) / len(best.word_confidence))
    save_trained_model(trained_model, folder, {})
    assert confidence_of(folder, trained_model) is None
    (folder / "confidence.json").write_text('{"words": 3}')
    with pytest.raises(UserError, match=r"confidence\.json: key words"):
        confidence_of(folder, trained_model)


def test_languages_without_blanks_have_a_probability_for_each_piece(
    trained_model: TrainedModel,
) -> None:
    [[best, *_]] = Translator(trained_model).translate(made_up_sentences(1))
    flat = Confidence(Calibration([0.0], [0.5]), Calibration([0.0], [50.0]))
    found = flat.of(replace(best), trained_model.target_tokenizer, "zh")
    assert len(found.word_confidence) == len(best.hypotheses[0].ids)
