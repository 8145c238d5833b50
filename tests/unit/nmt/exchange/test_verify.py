"""Comparison of exported models with torch, and the formats that CTranslate2 runs."""

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

from nmt.base.errors import UserError
from nmt.config import DecodingConfig, EngineName, SearchMethod, check_effects
from nmt.exchange.argos import ArgosExporter
from nmt.exchange.ctranslate2 import CTranslate2Exporter
from nmt.exchange.engines import open_engine
from nmt.exchange.runtimes import TorchRuntime, greedy
from nmt.exchange.transformers_runtime import EXACT
from nmt.exchange.verify import Text, compare, verify
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel, load_trained_model
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


class OtherRuntime(TorchRuntime):
    """Scores as torch does, plus an error, and translates by a table."""

    program = "another"

    def __init__(
        self,
        model: TrainedModel,
        error: float,
        table: dict[str, str] | None = None,
        dtype: torch.dtype = torch.float32,
        tolerance: float = 1e-4,
    ) -> None:
        super().__init__(model, dtype)
        self.error, self.table, self.tolerance = error, table or {}, tolerance  # type: ignore[misc]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        found = zip(texts, super().encode(texts), strict=True)
        return [ids if "0" in text else ids[1:] for text, ids in found]

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        found = super().token_log_probs(sources, targets)
        found[0][0] += self.error
        return found

    def translate(self, texts: Sequence[str]) -> list[str]:
        return [self.table.get(text, text) for text in texts]


def test_equal_ids_translations_and_bleu_are_counted(digits: TrainedModel, text: Text) -> None:
    table = {source: " ".join(reversed(source.split())) for source in text.sources}
    [found] = verify([OtherRuntime(digits, 0.0, table)], digits, text)
    assert (len(found.translations), found.other_texts) == (40, [])
    assert found.bleu == pytest.approx((100.0, 100.0))
    right = table[text.sources[3]]
    table[text.sources[3]] = "another"
    [found] = verify([OtherRuntime(digits, 0.0, table)], digits, text)
    assert found.bleu
    assert found.bleu[0] == pytest.approx(100.0)
    assert found.bleu[1] < 99.0
    lines = found.lines()
    same = sum("0" in source for source in text.sources)
    assert lines[1] == f"another: {same} of 40 sources have the same ids"
    assert lines[2].startswith("another: 39 of 40 translations of forty lines by greedy search")
    assert lines[-1] == f"another: other translation: another, by torch: {right}"
    assert sum("other ids: " in line for line in lines) == 10


def test_text_without_pairs_is_rejected(digits: TrainedModel) -> None:
    for pair in ([], []), ([""], ["1"]), (["1"], [""]), (["1 " * 40], ["1"]):
        with pytest.raises(UserError, match="all lines of the text to compare"):
            verify([OtherRuntime(digits, 0.0)], digits, Text("text", *pair))


@pytest.mark.parametrize("with_text", [False, True])
def test_other_log_probabilities_are_refused(
    digits: TrainedModel, text: Text, with_text: bool
) -> None:
    given = text if with_text else None
    [found] = verify([OtherRuntime(digits, 5e-5)], digits, given)
    assert found.largest_difference < 1e-4
    for error, shown in ((0.1, "0.1"), (math.nan, "nan")):
        with pytest.raises(UserError, match=f"another differ from those of torch by up to {shown}"):
            verify([OtherRuntime(digits, error)], digits, given)


def test_float64_finds_a_difference_that_float32_hides(tokenizer_path: Path) -> None:
    """Large weights make the model so ill-conditioned that float32 rounds by more than 1e-4."""
    model = tiny_trained_model(tokenizer_path)
    for parameter in model.network.parameters():
        parameter.mul_(32)
    pair = model.source_tokenizer.encode(["Kalo mine."]), model.target_tokenizer.encode(["Zuve."])
    exact, rounded = (
        torch.tensor(TorchRuntime(model, dtype).token_log_probs(*pair)[0])
        for dtype in (torch.float64, torch.float32)
    )
    assert (exact - rounded).abs().max() > 1e-4
    for error in (0.0, 1e-9):
        other = OtherRuntime(model, error, dtype=torch.float64, tolerance=EXACT)
        if error:
            with pytest.raises(UserError, match=r"by up to 1e-09 nats, more than the tolerance of"):
                verify([other], model)
        else:
            verify([other], model)


def test_progress_counts_the_work_of_all_programs(digits: TrainedModel, text: Text) -> None:
    steps: list[float] = []

    @contextmanager
    def bar(description: str, total: int) -> Iterator[Any]:
        assert (description, total) == ("comparing with another", 3 * (40 + 40))
        yield steps.append

    verify([OtherRuntime(digits, 0.0)] * 2, digits, text, bar)
    assert sum(steps) == 3 * 80


def test_the_reason_of_no_comparison_is_given(digits: TrainedModel) -> None:
    def opened(error: Exception) -> Any:
        raise error

    [missing] = compare(lambda: opened(ImportError("x", name="onnx")), digits, None)
    assert "not compared with the other program: onnx is not installed; run `make" in missing


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
    [found] = verify(exporter.open(digits, tmp_path), digits, text)
    assert (len(found.translations), found.other_texts) == (40, [])
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
