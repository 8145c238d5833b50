import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from nmt.config import DecodingConfig, Positions
from nmt.decoding.search import Hypothesis
from nmt.decoding.torch_engine import TorchEngine
from nmt.decoding.translator import Translator
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from tests.support import made_up_sentences, tiny_trained_model, train_tokenizer

DECODING = DecodingConfig(beam_size=3, max_length_ratio=1.0, max_length_offset=4, batch_size=4)


def translated(model: TrainedModel, texts: list[str], **changes: int) -> list[str]:
    translator = Translator(model, replace(DECODING, **changes))
    return [best[0].text for best in translator.translate(texts)]


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
    before, [found], after = translator.translate(["Kalo.", text, "Mi."], first_line=41)
    assert len(before) == len(after) == 1
    assert len(warnings) == 1
    assert warnings[0].startswith(f"line 42: {num_tokens} tokens are more than the model's 15")
    assert f"in {len(found.hypotheses)} pieces" in warnings[0]
    assert len(found.hypotheses) >= num_tokens // 15
    assert found.score == pytest.approx(sum(h.score for h in found.hypotheses))


class _Recording:
    """An engine that keeps the sources it is given and finds the empty translation."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def search(
        self,
        sources: Sequence[Sequence[int]],
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        self.seen.extend(list(ids) for ids in sources)
        return [[Hypothesis([], -1.0, -1.0, [-1.0])] for _ in sources]


def pieces_of(model: TrainedModel, text: str) -> list[list[int]]:
    """The ids that search is given for a text, in the text's order."""
    engine = _Recording()
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
    assert max(done) == DECODING.batch_size


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
