import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.config import DecodingConfig, LengthPenalty, Positions, SearchMethod
from nmt.decoding.hypothesis import Hypothesis
from nmt.decoding.task import Demand, Wish
from nmt.decoding.torch_engine import TorchEngine
from nmt.decoding.translator import Translation, Translator
from nmt.errors import UserError
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

DECODING = DecodingConfig(beam_size=3, max_length_ratio=1.0, max_length_offset=4, batch_size=4)


def translated(model: TrainedModel, texts: list[str], **changes: object) -> list[str]:
    translator = Translator(model, replace(DECODING, **changes))
    return [best[0].text for best in translator.translate(texts)]


@pytest.mark.parametrize(
    "option",
    [
        {},
        {"min_length_ratio": 0.8, "length_penalty_kind": LengthPenalty.average},
        {"repetition_penalty": 1.5, "no_repeat_ngram": 2},
        {"patience": 1.0},
        {"method": SearchMethod.sampling, "top_p": 0.9},
        {"beam_size": 4, "diversity_groups": 2},
        {"num_best": 3, "length_penalty_kind": LengthPenalty.none},
    ],
    ids=lambda option: " ".join(option) or "default",
)
def test_no_option_lets_neighbours_or_refilling_change_a_translation(
    trained_model: TrainedModel, option: dict[str, object]
) -> None:
    texts = made_up_sentences(7, seed=5)
    alone = translated(trained_model, texts, batch_size=1, **option)
    assert len(set(alone)) > 3
    assert translated(trained_model, texts, batch_size=3, refill=0.4, **option) == alone


@pytest.mark.parametrize("positions", list(Positions))
def test_padding_batch_size_and_order_change_no_translation(
    tokenizer_path: Path, positions: Positions
) -> None:
    model = tiny_trained_model(tokenizer_path, positions=positions)
    texts = made_up_sentences(14, seed=5)
    alone = translated(model, texts, batch_size=1)
    assert len(set(alone)) > 7  # else the model would say the same whatever it reads
    assert translated(model, texts, batch_size=64) == alone
    assert translated(model, texts, batch_size=5) == alone
    assert translated(model, texts, batch_tokens=80, refill=0.2, num_workers=2) == alone
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    shuffled = translated(model, [texts[place] for place in order])
    assert shuffled == [alone[place] for place in order]


def test_scores_do_not_depend_on_the_neighbours_either(trained_model: TrainedModel) -> None:
    texts = made_up_sentences(6, seed=7)
    one, many = (
        [best[0] for best in Translator(trained_model, config).translate(texts)]
        for config in (replace(DECODING, batch_size=1), replace(DECODING, batch_size=6))
    )
    assert [t.score for t in one] == pytest.approx([t.score for t in many], abs=1e-4)


def test_scores_are_those_of_the_model_reading_the_translation(
    trained_model: TrainedModel,
) -> None:
    texts = made_up_sentences(5, seed=4)
    tokenizer, model = trained_model.target_tokenizer, trained_model.transformer
    config = replace(DECODING, num_best=3, refill=0.5, batch_size=2)
    for text, best in zip(texts, Translator(trained_model, config).translate(texts), strict=True):
        source = torch.tensor(
            [[*trained_model.source_tokenizer.encode([text])[0], tokenizer.eos_id]]
        )
        mask = torch.ones_like(source, dtype=torch.bool)
        for [hypothesis] in (translation.hypotheses for translation in best):
            target = torch.tensor([[tokenizer.bos_id, *hypothesis.ids]])
            log_probs = model.project(model(source, mask, target)).log_softmax(-1)[0]
            said = [*hypothesis.ids, tokenizer.eos_id][: len(hypothesis.token_log_probs)]
            forced = [float(log_probs[place, token]) for place, token in enumerate(said)]
            assert hypothesis.token_log_probs == pytest.approx(forced, abs=1e-4)
            assert hypothesis.log_prob == pytest.approx(sum(forced), abs=1e-4)


def assert_alike(found: Translation, expected: Translation) -> None:
    """Equal in all, but for the rounding of sums that other neighbours bring."""
    assert found.text == expected.text
    assert found.score == pytest.approx(expected.score, abs=1e-5)
    assert len(found.hypotheses) == len(expected.hypotheses)
    for one, other in zip(found.hypotheses, expected.hypotheses, strict=True):
        assert one.ids == other.ids
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-5)


def test_a_translation_has_its_prefix_and_what_is_required_but_not_what_is_banned(
    trained_model: TrainedModel,
) -> None:
    texts = made_up_sentences(6, seed=4)
    translator = Translator(trained_model, replace(DECODING, batch_size=4))
    plain = [best[0] for best in translator.translate(texts)]
    encode = trained_model.target_tokenizer.encode
    prefixes = ["", "Kalo", "Ne pu", "", "mi mi mi mi mi mi mi mi mi mi mi mi", "Ra"]
    wishes = [Wish(prefix) for prefix in prefixes]
    found = [best[0] for best in translator.translate(texts, wishes=wishes)]
    assert_alike(found[0], plain[0])
    for prefix, translation in zip(prefixes, found, strict=True):
        ids = encode([prefix])[0]
        assert translation.hypotheses[0].ids[: len(ids)] == ids
    words = [max(translation.text.split(), key=len) for translation in plain]
    wishes = [Wish(banned=[word]) for word in words]
    found = [best[0] for best in translator.translate(texts, wishes=wishes)]
    for word, translation in zip(words, found, strict=True):
        run, ids = encode([word])[0], translation.hypotheses[0].ids
        assert run
        assert run not in [ids[at : at + len(run)] for at in range(len(ids))]
    wishes = [Wish(), Wish("Ne", ["kalo pu", "Ra"]), *[Wish(required=["mi ra", "Kalo"])] * 4]
    together = [best[0] for best in translator.translate(texts, wishes=wishes)]
    assert_alike(together[0], plain[0])
    for text, wish, translation in zip(texts, wishes, together, strict=True):
        assert all(phrase in translation.text for phrase in wish.required)
        assert translation.text.startswith(wish.prefix)
        [[alone, *_]] = translator.translate([text], wishes=[wish])
        assert alone.text == translation.text


def test_a_prefix_without_room_is_refused(trained_model: TrainedModel) -> None:
    with pytest.raises(
        UserError,
        match="line 7: prefix and required phrases have 70 tokens, more than the model's 63",
    ):
        Translator(trained_model, DECODING).translate(["Kalo."], lines=[7], wishes=[Wish("x" * 69)])


def test_only_plain_beam_search_can_be_asked_for_phrases(trained_model: TrainedModel) -> None:
    config = replace(DECODING, method=SearchMethod.sampling)
    with pytest.raises(UserError, match=r"take\n? *decoding\.method=beam"):
        Translator(trained_model, config).translate(["Kalo."], wishes=[Wish(required=["mi"])])


def test_wishes_that_cannot_be_met(trained_model: TrainedModel) -> None:
    told: list[str] = []
    translator = Translator(trained_model, replace(DECODING, no_repeat_ngram=1), told.append)
    with pytest.raises(UserError, match='line 1: "mi ra" is required, and a part of it is banned'):
        translator.translate(["Kalo."], wishes=[Wish(required=["mi ra"], banned=["ra"])])
    translator.translate(["Kalo.", "Mi."], wishes=[Wish(), Wish(required=["mi mi"])])
    assert told == ['line 2: required, and not there: "mi mi"']


def test_models_that_decode_together_take_what_the_smallest_takes(tokenizer_path: Path) -> None:
    large, small = (tiny_trained_model(tokenizer_path, max_source_length=n) for n in (40, 12))
    engine = TorchEngine(large, DECODING, [small])
    assert engine.longest_source == 12
    told: list[str] = []
    Translator(large, DECODING, told.append, engine).translate([" ".join(made_up_sentences(2))])
    assert "more than the model's 11; translated in" in told[0]


def test_of_a_text_in_pieces_nothing_is_required(trained_model: TrainedModel) -> None:
    told: list[str] = []
    [long] = made_up_sentences(1, seed=4)
    text = " ".join([long] * 40)
    wish = Wish(required=["mi ra mi ra mi ra"])
    translator = Translator(trained_model, DECODING, told.append)
    [[plain, *_]] = translator.translate([text])
    [[found, *_]] = translator.translate([text], wishes=[wish])
    assert found.text == plain.text
    assert told[-1] == "line 1: nothing is required of it, as it is cut into pieces"


def test_workers_leave_the_number_of_threads(trained_model: TrainedModel) -> None:
    before = torch.get_num_threads()
    translated(trained_model, made_up_sentences(9, seed=4), num_workers=2, batch_size=3)
    assert torch.get_num_threads() == before


def test_an_error_of_a_worker_is_raised(trained_model: TrainedModel) -> None:
    engine = TorchEngine(trained_model, replace(DECODING, num_workers=2, batch_size=1))
    with pytest.raises(IndexError):
        engine.search([[5], [10**6], [5]])


def test_as_many_lines_out_as_in_and_empty_ones_stay_empty(trained_model: TrainedModel) -> None:
    texts = ["", "Kalo mi.", "   ", "\t", "Ne pu ra!", ""]
    found = translated(trained_model, texts)
    assert len(found) == len(texts)
    assert [place for place, text in enumerate(found) if not text] == [0, 2, 3, 5]


def test_a_text_without_a_single_piece_is_empty(tmp_path: Path) -> None:
    """The tokenizer may normalise away what Python's `strip` leaves."""
    rules = tmp_path / "rules.tsv"
    rules.write_text("200B\t20\n", encoding="utf-8")  # a space of no width is white space
    path = train_tokenizer(
        tmp_path / "tokenizer.model",
        made_up_sentences(100),
        120,
        normalization_rule_tsv=str(rules),
    )
    assert Tokenizer(path).encode(["\u200b"]) == [[]]
    assert translated(tiny_trained_model(path), ["\u200b", "Kalo mi."])[0] == ""


def test_nothing_gives_nothing(trained_model: TrainedModel) -> None:
    assert translated(trained_model, []) == []


def test_n_best_are_best_first(trained_model: TrainedModel) -> None:
    translator = Translator(trained_model, replace(DECODING, num_best=3))
    for best in translator.translate(["Kalo mi ne.", "Pu ra so ti."]):
        scores = [translation.score for translation in best]
        assert len(best) == 3
        assert scores == sorted(scores, reverse=True)


def test_a_translation_is_as_long_as_the_limit_allows_and_no_longer(
    trained_model: TrainedModel,
) -> None:
    engine = TorchEngine(
        trained_model, replace(DECODING, max_length_ratio=0.0, max_length_offset=2)
    )
    for found in engine.search([[5, 6, 7, 8, 9], [5]]):
        assert 1 <= len(found[0].token_log_probs) <= 2


def test_the_model_stays_in_the_mode_it_was_in(trained_model: TrainedModel) -> None:
    for mode in (True, False):
        trained_model.transformer.train(mode)
        translated(trained_model, ["Kalo mi."])
        assert trained_model.transformer.training is mode


@pytest.mark.parametrize(
    "text",
    [
        " ".join(made_up_sentences(12, seed=9)),  # cut after sentences
        " ".join(made_up_sentences(60, seed=9)).replace(".", "").replace("?", ""),  # after words
        "kalomine" * 40,  # anywhere
    ],
    ids=["sentences", "words", "one word"],
)
def test_an_over_long_text_is_translated_in_pieces(tokenizer_path: Path, text: str) -> None:
    model = tiny_trained_model(tokenizer_path, max_source_length=16)
    warnings: list[str] = []
    translator = Translator(model, DECODING, warnings.append)
    num_tokens = len(model.source_tokenizer.encode([text])[0])
    assert num_tokens > 15
    before, [found], after = translator.translate(["Kalo.", text, "Mi."], lines=[41, 57, 60])
    assert len(before) == len(after) == 1
    assert len(warnings) == 1
    assert warnings[0].startswith(f"line 57: {num_tokens} tokens are more than the model's 15")
    assert f"in {len(found.hypotheses)} pieces" in warnings[0]
    assert len(found.hypotheses) >= num_tokens // 15
    assert found.score == pytest.approx(sum(h.score for h in found.hypotheses))


class _Recording:
    """An engine that keeps the sources it is given and finds the empty translation."""

    longest_target = 64

    def __init__(self, longest_source: int) -> None:
        self.longest_source = longest_source
        self.seen: list[list[int]] = []

    def objection(self, demand: Demand) -> str:
        return ""

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
        demands: object = None,
    ) -> list[list[Hypothesis]]:
        self.seen.extend(list(ids) for ids in sources)
        return [[Hypothesis([], -1.0, -1.0, [-1.0])] for _ in sources]


def pieces_of(model: TrainedModel, text: str) -> list[list[int]]:
    """The ids that search is given for a text, in the text's order."""
    engine = _Recording(min(model.config.max_source_length, model.config.model.max_length))
    Translator(model, DECODING, engine=engine).translate([text])
    return engine.seen


def test_the_pieces_are_the_text_and_each_of_them_fits(
    tokenizer_path: Path,
) -> None:
    model = tiny_trained_model(tokenizer_path, max_source_length=24)
    text = " ".join(made_up_sentences(9, seed=3))
    pieces = pieces_of(model, text)
    assert all(len(ids) <= 23 for ids in pieces)
    words = [word for piece in model.source_tokenizer.decode(pieces) for word in piece.split()]
    assert words == text.split()
    assert all(piece[-1] in ".?!" for piece in model.source_tokenizer.decode(pieces))


def test_a_character_longer_than_the_model_allows_still_ends(tokenizer_path: Path) -> None:
    """One character spelled in more bytes than a source may have tokens cannot be cut."""
    model = tiny_trained_model(tokenizer_path, max_source_length=4)
    assert len(model.source_tokenizer.encode(["😀"])[0]) > 3
    [[found]] = Translator(model, DECODING).translate(["😀 mi"])
    assert len(found.hypotheses) == 2


class _SpellsLineEnds(Tokenizer):
    def decode(self, sequences: object) -> list[str]:
        return [f"{text}\nnext" for text in super().decode(sequences)]  # type: ignore[arg-type]


def test_a_line_end_that_bytes_spell_does_not_make_a_line(
    trained_model: TrainedModel, tokenizer_path: Path
) -> None:
    model = replace(trained_model, target_tokenizer=_SpellsLineEnds(tokenizer_path))
    [found] = translated(model, ["Kalo mi."])
    assert "\n" not in found
    assert found.endswith(" next")


def test_special_pieces_never_occur(trained_model: TrainedModel) -> None:
    translator = Translator(trained_model, DECODING)
    tokenizer = trained_model.target_tokenizer
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.unknown_id}
    for best in translator.translate(made_up_sentences(8, seed=2)):
        assert not special & set(best[0].hypotheses[0].ids)


def test_progress_counts_the_pieces_that_are_done(trained_model: TrainedModel) -> None:
    done: list[int] = []
    Translator(trained_model, DECODING).translate(made_up_sentences(10, seed=2), done.append)
    assert sum(done) == 10
    assert max(done) <= DECODING.batch_size


def test_translating_leaves_no_gradient(trained_model: TrainedModel) -> None:
    translated(trained_model, ["Kalo mi."])
    assert not torch.is_inference(next(trained_model.transformer.parameters()))


def test_sentences_of_an_over_long_text_are_translated_one_by_one(
    tokenizer_path: Path,
) -> None:
    """Joined up to the limit, all but the first would be lost on a model of single sentences."""
    sentences = made_up_sentences(12, seed=3)
    model = tiny_trained_model(tokenizer_path, max_source_length=48)
    pieces = pieces_of(model, " ".join(sentences))
    assert model.source_tokenizer.decode(pieces) == sentences


def test_an_ensemble_averages_probabilities_and_wants_one_vocabulary(
    tokenizer_path: Path, tmp_path: Path
) -> None:
    first, second = (tiny_trained_model(tokenizer_path, seed=seed) for seed in (0, 1))
    texts = made_up_sentences(5, seed=4)
    sources = first.source_tokenizer.encode(texts)
    [alone] = TorchEngine(first, DECODING).search(sources[:1])
    [twice] = TorchEngine(first, DECODING, [first]).search(sources[:1])
    assert twice[0].ids == alone[0].ids
    assert twice[0].score == pytest.approx(alone[0].score, abs=1e-4)
    found = TorchEngine(first, DECODING, [second]).search(sources)
    one_by_one = replace(DECODING, batch_size=1)
    assert [best[0].ids for best in TorchEngine(first, one_by_one, [second]).search(sources)] == [
        best[0].ids for best in found
    ]
    tokenizer = first.target_tokenizer
    source = torch.tensor([[*sources[0], tokenizer.eos_id]])
    target = torch.tensor([[tokenizer.bos_id, *found[0][0].ids]])
    mask = torch.ones_like(source, dtype=torch.bool)
    both = [
        model.transformer.project(model.transformer(source, mask, target)).softmax(-1)[0]
        for model in (first, second)
    ]
    mean = ((both[0] + both[1]) / 2).log()
    said = [*found[0][0].ids, tokenizer.eos_id][: len(found[0][0].token_log_probs)]
    expected = [float(mean[place, token]) for place, token in enumerate(said)]
    assert found[0][0].token_log_probs == pytest.approx(expected, abs=1e-4)
    other = train_tokenizer(tmp_path / "tokenizer.model", made_up_sentences(90, seed=9), 70)
    with pytest.raises(
        UserError, match=r"model 2 of the ensemble .* has another source vocabulary"
    ):
        TorchEngine(first, DECODING, [tiny_trained_model(other)])
    turned = replace(second, config=replace(second.config, source_language="fr"))
    with pytest.raises(UserError, match=r"model 2 of the ensemble translates fr-.*, the first en-"):
        TorchEngine(first, DECODING, [turned])


def test_a_translation_has_a_token_at_least(tokenizer_path: Path) -> None:
    """Weights by which the end is often the most probable; `min_length=0` lets it have its way."""
    model = tiny_trained_model(tokenizer_path)
    with torch.no_grad():
        weight = model.transformer.output_weight
        weight[model.target_tokenizer.eos_id] = -50 * weight[model.target_tokenizer.eos_id]
    sources = model.source_tokenizer.encode(made_up_sentences(9, seed=6))
    lengths = {
        least: [
            len(best[0].ids)
            for best in TorchEngine(model, replace(DECODING, min_length=least)).search(sources)
        ]
        for least in (0, DecodingConfig.min_length)
    }
    assert 0 in lengths[0]
    assert 0 not in lengths[2]
