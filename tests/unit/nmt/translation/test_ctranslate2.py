"""CTranslate2 computes the same scores and, with the same search, the same translations."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import (
    Activation,
    DecodingConfig,
    LengthPenalty,
    NormPlacement,
    Positions,
    StartEmbedding,
    TiedEmbeddings,
    Timescales,
    checked_dataclass,
)
from nmt.exchange import ctranslate2 as exchange
from nmt.exchange.ctranslate2 import CTranslate2Exporter, convert
from nmt.exchange.verify import verify
from nmt.search.hypothesis import length_penalty
from nmt.search.request import Request
from nmt.trained_model import TrainedModel, load_trained_model
from nmt.translation.ctranslate2_engine import CTranslate2Engine
from nmt.translation.engine import banned_ids
from nmt.translation.torch_engine import TorchEngine
from tests.support import made_up_sentences, reversed_digits, tiny_trained_model


@pytest.fixture(scope="module")
def digits() -> TrainedModel:
    """Return a trained model that reverses digits."""
    return load_trained_model(Path(__file__).parents[3] / "models" / "digits_v1")


def open_ctranslate2(
    model: TrainedModel, config: DecodingConfig, compute_type: str = "float32"
) -> CTranslate2Engine:
    with tempfile.TemporaryDirectory() as folder:
        convert(model, Path(folder))
        return CTranslate2Engine(model, config, Path(folder), compute_type)


def engines(model: TrainedModel, **decoding: Any) -> tuple[TorchEngine, CTranslate2Engine]:
    config = replace(model.config.decoding, **decoding)
    return TorchEngine(model, config), open_ctranslate2(model, config)


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"norm": NormPlacement.pre},
        {"activation": Activation.gelu},
        {"positions": Positions.learned},
        {"positions": Positions.rotary},
        {
            "positions": Positions.rotary,
            "norm": NormPlacement.pre,
            "key_width": 6,
            "value_width": 6,
        },
        {"key_width": 12, "value_width": 12},
        {"tied_embeddings": TiedEmbeddings.none},
        {"tied_embeddings": TiedEmbeddings.target, "num_decoder_layers": 1},
        {"max_length": 16},
        {"activation": Activation.silu, "output_bias": True},
        {"start": StartEmbedding.zero, "timescales": Timescales.marian},
    ],
    ids=str,
)
def test_each_variant_has_the_scores_of_torch(
    tokenizer_path: Path, tmp_path: Path, variant: dict[str, Any]
) -> None:
    """All weights are random, biases and norms too, so a misplaced one changes the scores."""
    model = tiny_trained_model(tokenizer_path, max_source_length=16, **variant)
    exporter = CTranslate2Exporter()
    exporter.check(model)
    exporter.write(model, tmp_path)
    [found] = verify(exporter.open(model, tmp_path), model)
    assert found.largest_difference < 1e-4


def test_heads_of_two_widths_are_rejected(tokenizer_path: Path, tmp_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path, key_width=4, value_width=8)
    with pytest.raises(UserError, match=r"model\.key_width=4 and model\.value_width=8"):
        convert(model, tmp_path)


def test_conversion_with_other_scores_is_rejected(
    digits: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = exchange._specification

    def without_embedding_scale(model: TrainedModel) -> Any:
        spec = specification(model)
        spec.encoder.scale_embeddings = False
        return spec

    monkeypatch.setattr(exchange, "_specification", without_embedding_scale)
    with pytest.raises(UserError, match=r"differ from those of torch.*engine=torch"):
        engines(digits)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_without_length_penalty_translations_are_equal(
    digits: TrainedModel, beam_size: int
) -> None:
    ours, theirs = engines(digits, beam_size=beam_size, length_penalty=0.0)
    sources = digits.source_tokenizer.encode([source for source, _ in reversed_digits(60, 7)])
    counts: list[int] = []
    found = theirs.search(sources, counts.append)
    assert sum(counts) == 60
    for ids, mine, other in zip(sources, ours.search(sources), found, strict=True):
        assert other[0].ids == mine[0].ids
        expected = log_prob_of_allowed(digits, ids, mine[0].ids)
        assert other[0].log_prob == pytest.approx(expected, abs=1e-4)


def log_prob_of_allowed(model: TrainedModel, source: list[int], target: list[int]) -> float:
    """Return a log-probability with the banned tokens excluded from the softmax.

    CTranslate2 renormalises in this way and `beam_search` does not. The difference is hundredths
    with 26 pieces and thousandths with thousands of pieces.
    """
    tokenizer, transformer = model.target_tokenizer, model.network
    full_source = torch.tensor([[*source, model.source_tokenizer.eos_id]])
    target_input = torch.tensor([[tokenizer.bos_id, *target]])
    with torch.inference_mode():
        hidden = transformer(full_source, torch.ones_like(full_source).bool(), target_input)
        logits = transformer.project(hidden)[0]
        logits[:, list(banned_ids(tokenizer))] = -torch.inf
        logits[0, tokenizer.eos_id] = -torch.inf  # decoding.min_length
        log_probs = logits.log_softmax(-1)
    return float(log_probs[range(len(target) + 1), [*target, tokenizer.eos_id]].sum())


def test_hypotheses_are_ranked_by_our_length_penalty(digits: TrainedModel) -> None:
    ours, theirs = engines(digits, beam_size=4, length_penalty=0.6, num_best=3)
    sources = digits.source_tokenizer.encode([source for source, _ in reversed_digits(40, 8)])
    num_equal = 0
    for mine, other in zip(ours.search(sources), theirs.search(sources), strict=True):
        assert len(other) == 3
        assert [h.score for h in other] == sorted((h.score for h in other), reverse=True)
        for hypothesis in other:
            penalty = length_penalty(len(hypothesis.ids) + 1, digits.config.decoding)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / penalty)
        num_equal += other[0].ids == mine[0].ids
    assert num_equal >= 38


@pytest.mark.parametrize("patience", [0, 1, 1.5])
def test_the_search_ends_as_by_torch(digits: TrainedModel, patience: float) -> None:
    ours, theirs = engines(digits, beam_size=3, length_penalty=1.0, patience=patience)
    sources = digits.source_tokenizer.encode([source for source, _ in reversed_digits(100, 8)])
    expected = [best.ids for best, *_ in ours.search(sources)]
    assert [best.ids for best, *_ in theirs.search(sources)] == expected
    # One sentence has another translation with patience 1.
    exact = [best.ids for best, *_ in engines(digits, beam_size=3)[0].search(sources)]
    assert (exact == expected) == (patience != 1)


@pytest.mark.parametrize("batch_size", [2, 16], ids=["one limit per batch", "several limits"])
def test_limits_hold_and_special_tokens_never_occur(tokenizer_path: Path, batch_size: int) -> None:
    model = tiny_trained_model(tokenizer_path)  # random weights seldom end a sentence
    config = DecodingConfig(
        beam_size=3, max_length_ratio=1.0, max_length_offset=2, batch_size=batch_size
    )
    sources = model.source_tokenizer.encode(made_up_sentences(12, seed=5))
    engine = open_ctranslate2(model, config)
    found = engine.search(sources)
    tokenizer = model.target_tokenizer
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id}
    lengths = [len(best[0].ids) for best in found]
    assert all(n <= len(ids) + 3 for n, ids in zip(lengths, sources, strict=True))
    assert any(n == len(ids) + 3 for n, ids in zip(lengths, sources, strict=True))
    assert not special & {index for best in found for index in best[0].ids}
    assert [[h.ids for h in engine.search([ids])[0]] for ids in sources] == [
        [h.ids for h in best] for best in found
    ]
    assert engine.search([]) == []
    shortest = replace(config, max_length_ratio=0.0, max_length_offset=0)
    assert all(len(best[0].ids) <= 1 for best in open_ctranslate2(model, shortest).search(sources))


def test_torch_keeps_its_number_of_threads(digits: TrainedModel) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        _, theirs = engines(digits)
        theirs.search(digits.source_tokenizer.encode(["1 2 3"]))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@checked_dataclass
class NewConfig(DecodingConfig):
    """Search options with a key that the engine does not know."""

    new_key: int = 0


def test_unsupported_options_are_rejected(digits: TrainedModel) -> None:
    with pytest.raises(UserError, match=r"compute_type=int7.*use compute_type=float32"):
        open_ctranslate2(digits, digits.config.decoding, "int7")
    open_ctranslate2(digits, NewConfig())
    with pytest.raises(UserError, match=r"decoding\.new_key=3: .*engine=torch"):
        open_ctranslate2(digits, NewConfig(new_key=3))


@pytest.mark.parametrize(
    "decoding",
    [
        {"length_penalty_kind": LengthPenalty.none},
        {"min_length": 9, "length_penalty": 0.0},
        {"max_length": 3, "length_penalty": 0.0},
    ],
    ids=str,
)
def test_options_have_the_same_meaning(digits: TrainedModel, decoding: dict[str, Any]) -> None:
    ours, theirs = engines(digits, **decoding)
    sources = digits.source_tokenizer.encode(["1 2 3 4 5", "7 7 7 7", "2 9 2 9 2 9"])
    expected = [best[0].ids for best in ours.search(sources)]
    assert [best[0].ids for best in theirs.search(sources)] == expected


def test_constraints_are_rejected(digits: TrainedModel) -> None:
    _, theirs = engines(digits)
    theirs.check(Request())
    for request in (Request([7]), Request(required=[[[7]]]), Request(banned=[[7]])):
        with pytest.raises(UserError, match="use engine=torch"):
            theirs.check(request)
