"""Comparison of exported models with torch, and the formats that CTranslate2 runs."""

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, SearchMethod, check_effects
from nmt.exchange.argos import ArgosExporter
from nmt.exchange.ctranslate2 import CTranslate2Exporter
from nmt.exchange.engines import EngineName, open_engine
from nmt.exchange.verify import Text, greedy, verify
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.forced import ForcedDecoder
from tests.support import reversed_digits, tiny_trained_model


@pytest.fixture(scope="module")
def digits() -> TrainedModel:
    """Return a trained model that reverses digits."""
    return load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")


@pytest.fixture(scope="module")
def text() -> Text:
    sources, references = zip(*reversed_digits(40, 7), strict=True)
    return Text("forty lines", sources, references)


def test_models_of_any_search_are_compared_greedily(digits: TrainedModel) -> None:
    own = DecodingConfig(method=SearchMethod.sampling, top_k=5, temperature=0.5, seed=2)
    for decoding in (own, DecodingConfig(trees=True, beam_size=3)):
        model = replace(digits, config=replace(digits.config, decoding=decoding))
        found = greedy(model)
        check_effects(found)
        open_engine(EngineName.ctranslate2, "", digits, found)


class OurRuntime:
    """Scores as torch does, plus an error, and translates by a table."""

    tolerance = 1e-4

    def __init__(self, model: TrainedModel, error: float, translations: dict[str, str]) -> None:
        self.model = model
        self.error = error
        self.translations = translations

    def token_log_probs(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> list[list[float]]:
        pairs = list(zip(sources, targets, strict=True))
        found = ForcedDecoder(self.model).token_log_probs(pairs)
        found[0][0] += self.error
        return found

    def translate(self, texts: Sequence[str]) -> list[str]:
        return [self.translations.get(text, text) for text in texts]


def test_equal_translations_and_bleu_are_counted(digits: TrainedModel, text: Text) -> None:
    reversed_texts = {source: " ".join(reversed(source.split())) for source in text.sources}
    found = verify(OurRuntime(digits, 0.0, reversed_texts), digits, text)
    assert (found.num_equal, found.num_texts) == (40, 40)
    assert found.bleu == pytest.approx((100.0, 100.0))
    reversed_texts[text.sources[3]] = "another"
    found = verify(OurRuntime(digits, 0.0, reversed_texts), digits, text)
    assert found.num_equal == 39
    assert found.bleu[0] == pytest.approx(100.0)
    assert found.bleu[1] < 99.0
    assert "39 of 40 translations of forty lines" in found.lines(text)[1]


def test_text_without_pairs_is_rejected(digits: TrainedModel) -> None:
    for pair in ([], []), ([""], ["1"]), (["1"], [""]), (["1 " * 40], ["1"]):
        with pytest.raises(UserError, match="all lines of the text to compare"):
            verify(OurRuntime(digits, 0.0, {}), digits, Text("text", *pair))


@pytest.mark.parametrize("with_text", [False, True])
def test_other_log_probabilities_are_refused(
    digits: TrainedModel, text: Text, with_text: bool
) -> None:
    given = text if with_text else None
    assert verify(OurRuntime(digits, 5e-5, {}), digits, given).largest_difference < 1e-4
    with pytest.raises(UserError, match=r"differ from those of torch by up to 0\.1 nats"):
        verify(OurRuntime(digits, 0.1, {}), digits, given)
    with pytest.raises(UserError, match=r"by up to nan nats"):
        verify(OurRuntime(digits, float("nan"), {}), digits, given)


@pytest.mark.parametrize("compute_type", ["float32", "int8"])
@pytest.mark.parametrize("exporter_class", [CTranslate2Exporter, ArgosExporter])
def test_exports_that_ctranslate2_runs_translate_as_torch(
    digits: TrainedModel,
    text: Text,
    tmp_path: Path,
    exporter_class: type[CTranslate2Exporter | ArgosExporter],
    compute_type: str,
) -> None:
    exporter = exporter_class(compute_type)
    exporter.check(digits)
    exporter.export(digits, tmp_path)
    found = verify(exporter.open(digits, tmp_path), digits, text)
    assert found.num_equal == 40
    # Eight bits are another arithmetic.
    assert (found.largest_difference < 1e-4) == (compute_type == "float32")


def test_a_package_of_argos_has_its_layout(digits: TrainedModel, tmp_path: Path) -> None:
    ArgosExporter().export(digits, tmp_path)
    [package] = tmp_path.iterdir()
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path)
    root = package.stem
    assert {f"{root}/metadata.json", f"{root}/model/model.bin"} <= names
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / root / "sentencepiece.model")
    )
    assert pieces.encode("3 1", out_type=str) == digits.source_tokenizer.pieces(
        digits.source_tokenizer.encode(["3 1"])[0]
    )


def test_a_package_of_argos_needs_one_vocabulary(
    tokenizer_path: Path, digit_tokenizer_path: Path
) -> None:
    model = tiny_trained_model(tokenizer_path)
    model = replace(model, target_tokenizer=Tokenizer(digit_tokenizer_path))
    with pytest.raises(UserError, match=r"tokenizer\.joint=false.*use format=ctranslate2"):
        ArgosExporter().check(model)


def test_unknown_arithmetic_is_refused() -> None:
    with pytest.raises(UserError, match="compute_type=int9 is not one of float32, float16"):
        CTranslate2Exporter("int9")
