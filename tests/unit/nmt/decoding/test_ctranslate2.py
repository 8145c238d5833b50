"""CTranslate2 holds the same model: the same scores, and where the search is the same, the same
translations."""

import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from nmt.config import (
    Activation,
    DecodingConfig,
    LengthPenalty,
    NormPlacement,
    Positions,
    TiedEmbeddings,
)
from nmt.decoding import ctranslate2_folder
from nmt.decoding.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.ctranslate2_folder import CACHE_FOLDER, RECORD_FILE, convert, converted
from nmt.decoding.engine import banned_ids
from nmt.decoding.hypothesis import length_penalty
from nmt.decoding.task import Demand
from nmt.decoding.torch_engine import TorchEngine
from nmt.disk_fault import DiskFault
from nmt.errors import UserError
from nmt.trained_model import (
    WEIGHTS_FILE,
    TrainedModel,
    load_trained_model,
    save_trained_model,
    save_weights,
)
from tests.support import made_up_sentences, reversed_digits, tiny_trained_model

DIGITS = Path(__file__).parents[3] / "models" / "digits_v1"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder of a model that has learnt something: it reverses digits."""
    return Path(shutil.copytree(DIGITS, tmp_path / "model"))


def engines(folder: Path, **decoding: Any) -> tuple[TorchEngine, CTranslate2Engine, TrainedModel]:
    model = load_trained_model(folder)
    config = replace(model.config.decoding, **decoding)
    return (
        TorchEngine(model, config),
        CTranslate2Engine(model, config, folder, "float32"),
        model,
    )


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
    ],
    ids=str,
)
def test_each_variant_scores_as_torch_does(
    tokenizer_path: Path, tmp_path: Path, variant: dict[str, Any]
) -> None:
    """The weights are random, biases and norms too, so each one that went astray would tell."""
    model = tiny_trained_model(tokenizer_path, max_source_length=16, **variant)
    convert(model, tmp_path)
    assert ctranslate2_folder._largest_difference(model, tmp_path) < 0.1


def test_a_model_with_two_widths_of_a_head_is_refused_by_name(
    tokenizer_path: Path, tmp_path: Path
) -> None:
    model = tiny_trained_model(tokenizer_path, key_width=4, value_width=8)
    with pytest.raises(UserError, match=r"model\.key_width=4 and model\.value_width=8"):
        convert(model, tmp_path)


def test_a_conversion_that_scores_otherwise_is_refused_and_not_kept(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ctranslate2_folder.specification

    def wrong(model: TrainedModel) -> Any:
        spec = right(model)
        spec.encoder.scale_embeddings = False  # the factor sqrt(D) forgotten
        return spec

    monkeypatch.setattr(ctranslate2_folder, "specification", wrong)
    with pytest.raises(UserError, match=r"otherwise than this program.*engine=torch"):
        engines(digits)
    assert not (digits / CACHE_FOLDER).exists()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_without_length_penalty_both_find_the_same(digits: Path, beam_size: int) -> None:
    ours, theirs, model = engines(digits, beam_size=beam_size, length_penalty=0.0)
    sources = model.source_tokenizer.encode([source for source, _ in reversed_digits(60, 7)])
    told: list[int] = []
    found = theirs.search(sources, told.append)
    assert sum(told) == 60
    for ids, mine, other in zip(sources, ours.search(sources), found, strict=True):
        assert other[0].ids == mine[0].ids
        expected = log_prob_among_allowed(model, ids, mine[0].ids)
        assert other[0].log_prob == pytest.approx(expected, abs=1e-4)


def log_prob_among_allowed(model: TrainedModel, source: list[int], target: list[int]) -> float:
    """CTranslate2 shares the probability of banned tokens out among the others; `search` does not.

    With 26 pieces this is a difference of hundredths, with thousands one of a thousandth.
    """
    tokenizer, transformer = model.target_tokenizer, model.transformer
    full_source = torch.tensor([[*source, model.source_tokenizer.eos_id]])
    target_input = torch.tensor([[tokenizer.bos_id, *target]])
    with torch.inference_mode():
        hidden = transformer(full_source, torch.ones_like(full_source).bool(), target_input)
        logits = transformer.project(hidden)[0]
        logits[:, list(banned_ids(tokenizer))] = -torch.inf
        logits[0, tokenizer.eos_id] = -torch.inf  # decoding.min_length
        log_probs = logits.log_softmax(-1)
    return float(log_probs[range(len(target) + 1), [*target, tokenizer.eos_id]].sum())


def test_with_length_penalty_scores_are_ours_and_best_first(digits: Path) -> None:
    ours, theirs, model = engines(digits, beam_size=4, length_penalty=0.6, num_best=3)
    sources = model.source_tokenizer.encode([source for source, _ in reversed_digits(40, 8)])
    same = 0
    for mine, other in zip(ours.search(sources), theirs.search(sources), strict=True):
        assert len(other) == 3
        assert [h.score for h in other] == sorted((h.score for h in other), reverse=True)
        for hypothesis in other:
            penalty = length_penalty(len(hypothesis.ids) + 1, model.config.decoding)
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / penalty)
        same += other[0].ids == mine[0].ids
    assert same >= 38


@pytest.mark.parametrize("batch_size", [2, 16], ids=["batches of a limit", "of several"])
def test_limits_of_each_sentence_hold_and_special_tokens_never_occur(
    tokenizer_path: Path, tmp_path: Path, batch_size: int
) -> None:
    """Random weights seldom end a sentence: its own limit does, whatever its neighbours'."""
    model = tiny_trained_model(tokenizer_path)
    save_trained_model(model, tmp_path / "model", {})
    config = DecodingConfig(
        beam_size=3, max_length_ratio=1.0, max_length_offset=2, batch_size=batch_size
    )
    sources = model.source_tokenizer.encode(made_up_sentences(12, seed=5))
    engine = CTranslate2Engine(model, config, tmp_path / "model", "float32")
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
    engine = CTranslate2Engine(model, shortest, tmp_path / "model", "float32")
    assert all(len(best[0].ids) <= 1 for best in engine.search(sources))


def test_as_many_are_searched_together_as_asked(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, engine, model = engines(digits, batch_size=4, batch_tokens=20)
    numbers = [" ".join("123456789"[:length]) for length in (1, 1, 1, 1, 1, 3, 3, 9, 9, 9)]
    sources = model.source_tokenizer.encode(numbers)
    batches: list[list[int]] = []

    class Noting:
        """CTranslate2's translator, which notes how long the sentences of a call are."""

        def __init__(self, translator: Any) -> None:
            self.translator = translator

        def translate_batch(self, pieces: list[list[str]], *rest: Any, **options: Any) -> Any:
            batches.append([len(row) + 1 for row in pieces])  # with EOS
            return self.translator.translate_batch(pieces, *rest, **options)

    monkeypatch.setattr(engine, "_translator", Noting(engine._translator))
    found = engine.search(sources)
    assert all(len(batch) <= 4 and len(batch) * max(batch) <= 20 for batch in batches)
    assert sum(map(len, batches)) == len(sources)
    assert max(map(len, batches)) == 4  # few tokens: as many sentences as may be
    alone = [engine.search([ids])[0] for ids in sources]
    assert [[h.ids for h in best] for best in found] == [[h.ids for h in best] for best in alone]


def counting(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Conversions from now on: the folder of each."""
    folders: list[Path] = []
    right: Callable[[TrainedModel, Path], None] = ctranslate2_folder.convert

    def convert_and_note(model: TrainedModel, folder: Path) -> None:
        folders.append(folder)
        right(model, folder)

    monkeypatch.setattr(ctranslate2_folder, "convert", convert_and_note)
    return folders


def test_a_conversion_is_kept_until_the_weights_change(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversions = counting(monkeypatch)
    model = load_trained_model(digits)
    for _ in range(2):
        with converted(model, digits) as folder:
            assert folder == digits / CACHE_FOLDER
    assert len(conversions) == 1

    with torch.no_grad():
        model.transformer.output_weight.mul_(1.5)
    save_weights(model.transformer, digits / WEIGHTS_FILE)
    with converted(model, digits):
        pass
    monkeypatch.setattr(ctranslate2_folder, "CONVERSION_VERSION", 99)
    with converted(model, digits):
        pass
    assert len(conversions) == 3
    assert not list(digits.glob(".*"))


def test_what_another_put_there_is_made_again(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that was given away may hold a cache with anything in it."""
    model = load_trained_model(digits)
    with converted(model, digits) as cache:
        whole = (cache / "model.bin").read_bytes()
    conversions = counting(monkeypatch)
    copy = digits.with_name("copy")
    shutil.copytree(digits, copy, copy_function=shutil.copy2)
    damage = {
        "changed": lambda: (copy / CACHE_FOLDER / "model.bin").write_bytes(whole[:-1] + b"?"),
        "another file": lambda: (copy / CACHE_FOLDER / "vmap.txt").write_text("a b"),
        "record": lambda: (copy / CACHE_FOLDER / RECORD_FILE).write_text("{"),
        "long record": lambda: (copy / CACHE_FOLDER / RECORD_FILE).write_text("[" * 70_000),
    }
    for number, harm in enumerate([lambda: None, *damage.values()], start=1):
        harm()  # the first time, the copy by itself is reason enough
        with converted(model, copy) as cache:
            assert (cache / "model.bin").read_bytes() == whole
            assert not (cache / "vmap.txt").exists()
        assert len(conversions) == number


def test_a_folder_that_cannot_be_written_costs_a_conversion_each_time(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def refuse(path: Path, needed: int) -> None:
        raise DiskFault(path, errno.EROFS, needed)

    monkeypatch.setattr(ctranslate2_folder, "atomic_folder", refuse)
    monkeypatch.setattr(
        ctranslate2_folder.logger, "info", lambda text, *values: said.append(text % values)
    )
    model = load_trained_model(digits)
    engine = CTranslate2Engine(model, model.config.decoding, digits, "float32")
    ids = model.source_tokenizer.encode(["3 1 4"])
    assert model.target_tokenizer.decode([engine.search(ids)[0][0].ids]) == ["4 1 3"]
    assert not (digits / CACHE_FOLDER).exists()
    assert said[-1].endswith("it is converted for this time only")


def test_torch_keeps_its_threads_beside_it(digits: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        _, theirs, model = engines(digits)  # converts, checks, opens
        assert torch.get_num_threads() == before + 1
        theirs.search(model.source_tokenizer.encode(["1 2 3"]))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_arithmetic_that_is_not_there_is_refused_by_name(digits: Path) -> None:
    model = load_trained_model(digits)
    with pytest.raises(UserError, match=r"compute_type=int7: .* take one of .*float32"):
        CTranslate2Engine(model, model.config.decoding, digits, "int7")


@dataclass(frozen=True)
class WithMore(DecodingConfig):
    """A search with a key that the engine has not heard of."""

    no_repeats: int = 0


def test_a_search_that_it_cannot_do_is_refused_by_name(digits: Path) -> None:
    model = load_trained_model(digits)
    CTranslate2Engine(model, WithMore(), digits, "float32")
    with pytest.raises(UserError, match=r"decoding\.no_repeats=3: .*engine=torch"):
        CTranslate2Engine(model, WithMore(no_repeats=3), digits, "float32")


@pytest.mark.parametrize(
    "decoding",
    [
        {"length_penalty_kind": LengthPenalty.none},
        {"min_length": 9, "length_penalty": 0.0},
        {"max_length": 3, "length_penalty": 0.0},
    ],
    ids=str,
)
def test_options_that_both_have_mean_the_same(digits: Path, decoding: dict[str, Any]) -> None:
    ours, theirs, model = engines(digits, **decoding)
    sources = model.source_tokenizer.encode(["1 2 3 4 5", "7 7 7 7", "2 9 2 9 2 9"])
    expected = [best[0].ids for best in ours.search(sources)]
    assert [best[0].ids for best in theirs.search(sources)] == expected


def test_no_run_of_tokens_occurs_twice(digits: Path) -> None:
    _, theirs, model = engines(digits, no_repeat_ngram=2)
    sources = model.source_tokenizer.encode(["7 7 7 7", "2 9 2 9 2 9"])
    for best in theirs.search(sources):
        runs = list(pairwise(best[0].ids))
        assert len(set(runs)) == len(runs) > 1


def test_a_translation_begins_with_its_prefix_whose_probability_counts(digits: Path) -> None:
    ours, theirs, model = engines(digits, length_penalty=0.0)
    sources = model.source_tokenizer.encode(["1 2 3 4 5", "7 7 7 7"])
    demands = [Demand(model.target_tokenizer.encode(["5 3"])[0]), Demand()]
    mine, other = ours.search(sources, None, demands), theirs.search(sources, None, demands)
    assert other[0][0].ids[:2] == demands[0].prefix
    for expected, found in zip(mine, other, strict=True):
        assert found[0].ids == expected[0].ids
        # Less what CTranslate2 makes of tokens that are banned; see above.
        assert found[0].log_prob == pytest.approx(expected[0].log_prob, abs=0.1)
    assert "take engine=torch" in theirs.objection(Demand(banned=[[7]]))
    assert not theirs.objection(demands[0])
