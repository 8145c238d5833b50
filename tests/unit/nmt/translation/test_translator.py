import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import (
    DecodingConfig,
    DecodingPrecision,
    FixedShapes,
    LengthPenalty,
    NormPlacement,
    Positions,
    SearchMethod,
    StartEmbedding,
    TiedEmbeddings,
)
from nmt.search.hypothesis import Hypothesis
from nmt.search.request import Request as SearchRequest
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation import fixed_search
from nmt.translation.fixed_search import Graphs
from nmt.translation.forced import ForcedDecoder
from nmt.translation.request import Request, Translation, notes_on
from nmt.translation.torch_engine import TorchEngine
from nmt.translation.translator import Translator, is_untranslatable
from tests.recorded_graph import record_graphs
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

DECODING = DecodingConfig(beam_size=3, max_length_ratio=1.0, max_length_offset=4, batch_size=4)


def translate(model: TrainedModel, texts: list[str], **changes: object) -> list[str]:
    translator = Translator(model, replace(DECODING, **changes))
    return [best[0].text for best in translator.translate(texts)]


@pytest.mark.parametrize(
    "option",
    [
        {},
        {"min_length": 8, "length_penalty_kind": LengthPenalty.average},
        {"patience": 1.0},
        {"method": SearchMethod.sampling, "top_p": 0.9},
        {"num_best": 3, "length_penalty_kind": LengthPenalty.none},
    ],
    ids=lambda option: " ".join(option) or "default",
)
def test_batch_size_does_not_change_a_translation_with_any_option(
    trained_model: TrainedModel, option: dict[str, object]
) -> None:
    texts = made_up_sentences(7, seed=5)
    alone = translate(trained_model, texts, batch_size=1, **option)
    assert len(set(alone)) > 3
    assert translate(trained_model, texts, batch_size=3, **option) == alone


@pytest.mark.parametrize("positions", list(Positions))
def test_padding_batch_size_and_order_do_not_change_a_translation(
    tokenizer_path: Path, positions: Positions
) -> None:
    model = tiny_trained_model(tokenizer_path, positions=positions)
    texts = made_up_sentences(14, seed=5)
    alone = translate(model, texts, batch_size=1)
    assert len(set(alone)) > 7  # otherwise the model would ignore its input
    assert translate(model, texts, batch_size=64) == alone
    assert translate(model, texts, batch_size=5) == alone
    assert translate(model, texts, batch_tokens=80, num_workers=2) == alone
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    shuffled = translate(model, [texts[index] for index in order])
    assert shuffled == [alone[index] for index in order]


def assert_equal(found: Translation, expected: Translation) -> None:
    """Compare translations up to the rounding of sums in batches of other sizes."""
    assert found.text == expected.text
    assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert len(found.hypotheses) == len(expected.hypotheses)
    for one, other in zip(found.hypotheses, expected.hypotheses, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_batch_size_does_not_change_scores(trained_model: TrainedModel) -> None:
    texts = made_up_sentences(6, seed=7)
    one, many = (
        [best[0] for best in Translator(trained_model, config).translate(texts)]
        for config in (replace(DECODING, batch_size=1), replace(DECODING, batch_size=6))
    )
    for found, expected in zip(one, many, strict=True):
        assert_equal(found, expected)


def token_log_probs(
    source: list[int], hypothesis: Hypothesis, *models: TrainedModel
) -> list[float]:
    """Return the log-probabilities of a hypothesis by the mean of models, decoded at once."""
    tokenizer = models[0].target_tokenizer
    full_source = torch.tensor([[*source, tokenizer.eos_id]])
    target = torch.tensor([[tokenizer.bos_id, *hypothesis.ids]])
    mask = torch.ones_like(full_source, dtype=torch.bool)
    probabilities = [
        transformer.project(transformer(full_source, mask, target)).softmax(-1)[0]
        for transformer in (model.network for model in models)
    ]
    mean = torch.stack(probabilities).mean(dim=0).log()
    # A hypothesis that was cut off has no EOS.
    tokens = [*hypothesis.ids, tokenizer.eos_id][: len(hypothesis.token_log_probs)]
    return [float(mean[index, token]) for index, token in enumerate(tokens)]


def test_scores_are_those_of_forced_decoding(trained_model: TrainedModel) -> None:
    sources = trained_model.source_tokenizer.encode(made_up_sentences(5, seed=4))
    found = TorchEngine(trained_model, replace(DECODING, num_best=3, batch_size=2)).search(sources)
    pairs = [(source, one) for source, best in zip(sources, found, strict=True) for one in best]
    by_batch_size = [
        ForcedDecoder(trained_model, size).token_log_probs([(s, one.ids) for s, one in pairs])
        for size in (1, 64)
    ]
    for (source, hypothesis), *forced in zip(pairs, *by_batch_size, strict=True):
        expected = token_log_probs(source, hypothesis, trained_model)
        assert hypothesis.token_log_probs == pytest.approx(expected, abs=1e-4)
        assert hypothesis.log_prob == pytest.approx(sum(expected), abs=1e-4)
        for values in forced:
            assert len(values) == len(hypothesis.ids) + 1
            assert values[: len(expected)] == pytest.approx(expected, abs=1e-4)


def test_constraints_hold_and_do_not_change_other_sentences(trained_model: TrainedModel) -> None:
    texts = made_up_sentences(6, seed=4)
    translator = Translator(trained_model, replace(DECODING, batch_size=4))
    encode = trained_model.target_tokenizer.encode
    plain = [best[0] for best in translator.translate(texts)]

    def constrained(requests: list[Request]) -> list[Translation]:
        return [best[0] for best in translator.translate(requests)]

    prefixes = ["", "Kalo", "Ne pu", "", "mi mi mi mi mi mi mi mi mi mi mi mi", "Ra"]
    found = constrained([Request(*pair) for pair in zip(texts, prefixes, strict=True)])
    assert_equal(found[0], plain[0])
    for prefix, translation in zip(prefixes, found, strict=True):
        ids = encode([prefix])[0]
        assert translation.hypotheses[0].ids[: len(ids)] == ids
        banned = Request(texts[0], prefix, banned=[prefix or "x", *prefix.split()[:1]])
        [[other], [same]] = translator.translate([banned, Request(texts[0], prefix)])
        assert other.hypotheses[0].ids[: len(ids)] == ids  # nothing is banned in the prefix
        one, two = (each.hypotheses[0].token_log_probs[: len(ids)] for each in (other, same))
        assert one == pytest.approx(two)

    words = [max(translation.text.split(), key=len) for translation in plain]
    found = constrained(
        [Request(text, banned=[word]) for text, word in zip(texts, words, strict=True)]
    )
    for word, translation in zip(words, found, strict=True):
        sequence, ids = encode([word])[0], translation.hypotheses[0].ids
        assert sequence
        assert sequence not in [ids[i : i + len(sequence)] for i in range(len(ids))]

    requests = [Request(texts[0]), Request(texts[1], "Ne", ["kalo pu", "Ra"])]
    requests += [Request(text, required=["mi ra", "Kalo"]) for text in texts[2:]]
    together = constrained(requests)
    assert_equal(together[0], plain[0])
    for request, translation in zip(requests, together, strict=True):
        assert all(phrase in translation.text for phrase in request.required)
        assert translation.text.startswith(request.prefix)
        [[alone, *_]] = translator.translate([request])
        assert alone.text == translation.text


@pytest.mark.parametrize(
    ("wanted", "changes", "message"),
    [
        (
            Request("Kalo.", "x" * 69),
            {},
            "prefix and required phrases have 70 tokens, but a translation by this model has at"
            " most 63 besides EOS",
        ),
        (
            Request("Kalo.", required=["mi"]),
            {"method": SearchMethod.sampling},
            "required phrases need beam search; use decoding.method=beam",
        ),
        (
            Request("Kalo.", required=["mi ra"], banned=["ra"]),
            {},
            'required phrase "mi ra" contains a banned phrase',
        ),
    ],
)
def test_constraints_that_cannot_be_fulfilled_are_rejected(
    trained_model: TrainedModel, wanted: Request, changes: dict[str, object], message: str
) -> None:
    translator = Translator(trained_model, replace(DECODING, **changes))
    with pytest.raises(UserError) as error:
        translator.translate([wanted])
    assert str(error.value).startswith(message)


def test_missing_required_phrase_is_reported(trained_model: TrainedModel) -> None:
    translator = Translator(trained_model, DECODING, _RecordingEngine(32))
    found = translator.translate(["Kalo.", Request("Mi.", required=["mi mi"])])
    assert notes_on(found, 4) == ["line 5: required phrases not in the translation: mi mi"]


def test_limits_of_an_ensemble_are_those_of_the_smallest_model(tokenizer_path: Path) -> None:
    large, small = (tiny_trained_model(tokenizer_path, max_source_length=n) for n in (40, 12))
    engine = TorchEngine(large, DECODING, [small])
    assert engine.longest_source == 12
    [[found]] = Translator(large, DECODING, engine).translate([" ".join(made_up_sentences(2))])
    assert "more than the model's limit of 11 tokens; translated in" in found.notes[0]


def test_required_phrases_of_a_split_text_are_ignored(trained_model: TrainedModel) -> None:
    [sentence] = made_up_sentences(1, seed=4)
    text = " ".join([sentence] * 40)
    required = Request(text, required=["mi ra mi ra mi ra"])
    [[plain], [found]] = Translator(trained_model, DECODING).translate([text, required])
    assert found.text == plain.text
    assert found.notes[0] == f"{plain.notes[0]}, without its prefix, required phrases and terms"


def test_batches_are_as_large_as_configured(trained_model: TrainedModel) -> None:
    engine = TorchEngine(trained_model, replace(DECODING, batch_size=4, batch_tokens=20))
    lengths = [1, 9, 1, 3, 1, 1, 9, 1, 3, 9]
    batches = engine._batches([SearchRequest(source=[5] * length) for length in lengths])
    assert sorted(index for batch in batches for index in batch) == list(range(10))
    sizes = [[lengths[index] + 1 for index in batch] for batch in batches]  # with EOS
    assert sizes == [[10, 10], [10, 4], [4, 2, 2, 2], [2, 2]]


def test_few_requests_are_divided_among_the_workers(trained_model: TrainedModel) -> None:
    engine = TorchEngine(trained_model, replace(DECODING, num_workers=2, batch_size=64))
    sizes = [len(batch) for batch in engine._batches([SearchRequest(source=[5])] * 21)]
    assert sizes == [11, 10]
    assert len(engine._batches([SearchRequest(source=[5])] * 8)) == 1


def test_workers_do_not_change_the_number_of_threads(trained_model: TrainedModel) -> None:
    before = torch.get_num_threads()
    translate(trained_model, made_up_sentences(9, seed=4), num_workers=2, batch_size=3)
    assert torch.get_num_threads() == before


def test_error_of_a_worker_is_raised(trained_model: TrainedModel) -> None:
    engine = TorchEngine(trained_model, replace(DECODING, num_workers=2, batch_size=1))
    with pytest.raises(IndexError):
        engine.search([[5], [10**6], [5]])


def test_blank_texts_have_empty_translations(trained_model: TrainedModel) -> None:
    texts = ["", "Kalo mi.", "   ", "\t", "Ne pu ra!", ""]
    found = translate(trained_model, texts)
    assert [index for index, text in enumerate(found) if not text] == [0, 2, 3, 5]
    assert translate(trained_model, []) == []


COPIED = ("12 %", "0:01,5 --> 0:02", "😀 👍🏽", "…?!", "१२३", " https://a.org/b?c=d ", "me@a.org")
SEARCHED = ("5 km", "(see www.a.org)", "二", "ა", "é", "{0}x", "", " ", "\u200b", "\u0301")


def test_text_without_a_letter_is_copied(trained_model: TrainedModel) -> None:
    config = replace(trained_model.config.decoding, copy_untranslatable=True)
    translator = Translator(trained_model, config)
    assert not any(map(is_untranslatable, SEARCHED))
    [kalo], *found, again = translator.translate(["Kalo", *COPIED, "Kalo"])
    assert again == [kalo]
    assert [(best.text, best.hypotheses) for [best] in found] == [(t.strip(), []) for t in COPIED]
    [[forced]] = translator.translate([Request(COPIED[0], prefix="Ra")])
    assert forced.text.startswith("Ra")
    never = Translator(trained_model, replace(config, copy_untranslatable=False))
    assert all(best.hypotheses for [best] in never.translate(COPIED))


def test_text_that_is_split_into_pieces_already_is_noted_once(trained_model: TrainedModel) -> None:
    found = Translator(trained_model).translate(["Kalo", "Ka@@ lo", "mi@@ ne"])
    note = "contains '@@ ', as text that subword-nmt has split; give plain text"
    assert [[note for one in best for note in one.notes] for best in found] == [[], [note], []]


def test_text_without_pieces_is_empty(tmp_path: Path) -> None:
    """The normalisation of the tokenizer may remove what `str.strip` keeps."""
    rules = tmp_path / "rules.tsv"
    rules.write_text("200B\t20\n", encoding="utf-8")  # zero-width space → space
    path = train_tokenizer(
        tmp_path / "tokenizer.model",
        made_up_sentences(100),
        120,
        normalization_rule_tsv=str(rules),
    )
    assert Tokenizer(path).encode(["\u200b"]) == [[]]
    assert translate(tiny_trained_model(path), ["\u200b", "Kalo mi."])[0] == ""


def test_n_best_are_sorted_and_have_different_texts(trained_model: TrainedModel) -> None:
    translator = Translator(trained_model, replace(DECODING, beam_size=6, num_best=3))
    tokenizer = trained_model.target_tokenizer
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id}
    for best in translator.translate(["Kalo mi ne.", "Pu ra so ti."]):
        assert not any(special & set(one.hypotheses[0].ids) for one in best)
        scores = [translation.score for translation in best]
        assert len(best) == len({translation.text for translation in best}) == 3
        assert scores == sorted(scores, reverse=True)


def test_longest_translation(trained_model: TrainedModel) -> None:
    config = replace(DECODING, max_length_ratio=0.0, max_length_offset=2)
    for found in TorchEngine(trained_model, config).search([[5, 6, 7, 8, 9], [5]]):
        assert 1 <= len(found[0].token_log_probs) <= 2


def test_translation_changes_neither_mode_nor_gradients(trained_model: TrainedModel) -> None:
    for mode in (True, False):
        trained_model.network.train(mode)
        translate(trained_model, ["Kalo mi."])
        assert trained_model.network.training is mode
    assert not torch.is_inference(next(trained_model.network.parameters()))


@pytest.mark.parametrize(
    "text",
    [
        " ".join(made_up_sentences(12, seed=9)),
        " ".join(made_up_sentences(60, seed=9)).replace(".", "").replace("?", ""),
        "kalomine" * 40,
    ],
    ids=["between sentences", "between words", "within a word"],
)
def test_over_long_text_is_translated_in_segments(tokenizer_path: Path, text: str) -> None:
    model = tiny_trained_model(tokenizer_path, max_source_length=16)
    num_tokens = len(model.source_tokenizer.encode([text])[0])
    assert num_tokens > 15
    before, [found], after = Translator(model, DECODING).translate(["Kalo.", text, "Mi."])
    assert before[0].notes == after[0].notes == ()
    num_segments = len(found.hypotheses)
    assert found.notes == (
        f"more than the model's limit of 15 tokens; translated in {num_segments} segments",
    )
    assert num_segments >= num_tokens // 15
    assert found.score == pytest.approx(sum(h.score for h in found.hypotheses))


class _RecordingEngine:
    """Engine that records its sources and finds the empty translation."""

    longest_target = 64
    can_require = True

    def __init__(self, longest_source: int) -> None:
        self.longest_source = longest_source
        self.sources: list[list[int]] = []

    def check(self, request: SearchRequest) -> None:
        pass

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        requests: object = None,
    ) -> list[list[Hypothesis]]:
        self.sources.extend(list(ids) for ids in sources)
        return [[Hypothesis([], -1.0, -1.0, [-1.0])] for _ in sources]


def segments(model: TrainedModel, text: str) -> list[list[int]]:
    """Return the ids of the segments of a text."""
    engine = _RecordingEngine(min(model.config.max_source_length, model.config.model.max_length))
    Translator(model, DECODING, engine=engine).translate([text])
    return engine.sources


def test_each_sentence_of_an_over_long_text_is_a_segment(tokenizer_path: Path) -> None:
    """A model of single sentences would drop all but the first of several in a segment."""
    sentences = made_up_sentences(12, seed=3)
    model = tiny_trained_model(tokenizer_path, max_source_length=48)
    found = segments(model, " ".join(sentences))
    assert model.source_tokenizer.decode(found) == sentences
    assert all(len(ids) < 48 for ids in found)


def test_character_longer_than_the_limit(tokenizer_path: Path) -> None:
    """A character of more bytes than a source may have tokens cannot be split."""
    model = tiny_trained_model(tokenizer_path, max_source_length=4)
    assert len(model.source_tokenizer.encode(["😀"])[0]) > 3
    [[found]] = Translator(model, DECODING).translate(["😀 mi"])
    assert len(found.hypotheses) == 2


class _LineEndTokenizer(Tokenizer):
    def decode(self, sequences: object) -> list[str]:
        return [f"{text}\nnext" for text in super().decode(sequences)]  # type: ignore[arg-type]


def test_line_ends_in_translations_become_spaces(
    trained_model: TrainedModel, tokenizer_path: Path
) -> None:
    model = replace(trained_model, target_tokenizer=_LineEndTokenizer(tokenizer_path))
    [found] = translate(model, ["Kalo mi."])
    assert "\n" not in found
    assert found.endswith(" next")


def test_progress_counts_completed_segments(trained_model: TrainedModel) -> None:
    counts: list[int] = []
    Translator(trained_model, DECODING).translate(made_up_sentences(10, seed=2), counts.append)
    assert sum(counts) == 10
    assert max(counts) <= DECODING.batch_size


def test_ensemble_averages_probabilities(tokenizer_path: Path) -> None:
    first, second = (tiny_trained_model(tokenizer_path, seed=seed) for seed in (0, 1))
    sources = first.source_tokenizer.encode(made_up_sentences(5, seed=4))
    [alone] = TorchEngine(first, DECODING).search(sources[:1])
    [twice] = TorchEngine(first, DECODING, [first]).search(sources[:1])
    assert twice[0].ids == alone[0].ids
    assert twice[0].score == pytest.approx(alone[0].score, abs=1e-4)
    found = TorchEngine(first, DECODING, [second]).search(sources)
    one_by_one = TorchEngine(first, replace(DECODING, batch_size=1), [second]).search(sources)
    assert [best[0].ids for best in one_by_one] == [best[0].ids for best in found]
    expected = token_log_probs(sources[0], found[0][0], first, second)
    assert found[0][0].token_log_probs == pytest.approx(expected, abs=1e-4)


def test_ensemble_needs_one_vocabulary_and_direction(tokenizer_path: Path, tmp_path: Path) -> None:
    first = tiny_trained_model(tokenizer_path)
    other = train_tokenizer(tmp_path / "tokenizer.model", made_up_sentences(90, seed=9), 70)
    french = replace(first, config=replace(first.config, source_language="fr"))
    for second in (tiny_trained_model(other), french):
        with pytest.raises(UserError, match="model 2 of the ensemble has another direction or"):
            TorchEngine(first, DECODING, [second])


def test_default_minimum_length_avoids_empty_translations(tokenizer_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path)
    with torch.no_grad():  # EOS is often the most probable token
        weight = model.network.output_weight
        weight[model.target_tokenizer.eos_id] = -50 * weight[model.target_tokenizer.eos_id]
    sources = model.source_tokenizer.encode(made_up_sentences(9, seed=6))
    lengths = {
        min_length: [
            len(best[0].ids)
            for best in TorchEngine(model, replace(DECODING, min_length=min_length)).search(sources)
        ]
        for min_length in (0, DecodingConfig.min_length)
    }
    assert 0 in lengths[0]
    assert 0 not in lengths[2]


@pytest.mark.parametrize(
    "variant",
    [
        *(
            {"positions": positions, "norm": norm}
            for positions in Positions
            for norm in NormPlacement
        ),
        {"num_experts": 3},  # searched as without fixed shapes
        {"start": StartEmbedding.zero},
        {"key_width": 4, "value_width": 6},
    ],
    ids=str,
)
def test_fixed_shapes_find_the_same_hypotheses(
    tokenizer_path: Path, variant: dict[str, object]
) -> None:
    model = tiny_trained_model(tokenizer_path, **variant)
    sources = model.source_tokenizer.encode(made_up_sentences(14, seed=5))
    plain = SearchRequest()
    requests = [plain, SearchRequest(prefix=(7,)), *[plain] * 12]
    for changes in ({}, {"beam_size": 1}, {"patience": 1.0, "min_length": 6}):
        config = replace(DECODING, **changes)
        expected = TorchEngine(model, config).search(sources, requests=requests)
        fixed = TorchEngine(model, replace(config, fixed_shapes=FixedShapes.always))
        for found, [best] in zip(fixed.search(sources, requests=requests), expected, strict=True):
            assert found[0].ids == best.ids
            assert found[0].score == pytest.approx(best.score, abs=1e-5)
            assert found[0].token_log_probs == pytest.approx(best.token_log_probs, abs=1e-5)


@pytest.mark.parametrize("positions", Positions)
def test_captured_steps_find_the_same_hypotheses(
    tokenizer_path: Path,
    positions: Positions,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Graphs repeat the operations of a capture: no value of a batch may be part of them."""
    model = tiny_trained_model(tokenizer_path, positions=positions)
    sources = model.source_tokenizer.encode(made_up_sentences(14, seed=5))
    config = replace(DECODING, fixed_shapes=FixedShapes.always, batch_size=4, patience=1.0)
    expected = TorchEngine(model, config).search(sources)
    record_graphs(monkeypatch)
    as_on_gpu = partial(Graphs, torch.device("cuda"))
    monkeypatch.setattr(fixed_search, "Graphs", lambda _: as_on_gpu())
    captured = TorchEngine(model, config)
    assert captured.search(sources) == expected
    assert captured.search(sources[::-1]) == expected[::-1]
    assert not caplog.records  # a capture that fails is a warning


def test_company_and_order_do_not_change_a_translation_in_fixed_shapes(
    trained_model: TrainedModel,
) -> None:
    texts = made_up_sentences(14, seed=5)
    options = {"fixed_shapes": FixedShapes.always, "precision": DecodingPrecision.bfloat16}
    together = translate(trained_model, texts, **options)
    assert [translate(trained_model, [text], **options)[0] for text in texts] == together
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    shuffled = translate(trained_model, [texts[index] for index in order], **options)
    assert shuffled == [together[index] for index in order]


def test_in_fixed_shapes_a_failed_search_does_not_affect_the_next_one(tokenizer_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path, tied_embeddings=TiedEmbeddings.none)
    with torch.no_grad():
        model.network.source_embedding.weight[10] = torch.nan
    engine = TorchEngine(model, replace(DECODING, fixed_shapes=FixedShapes.always))
    expected = engine.search([[5, 6, 7]])
    with pytest.raises(UserError, match="not finite"):
        engine.search([[5, 10, 7, 8, 9]])
    assert engine.search([[5, 6, 7]]) == expected
