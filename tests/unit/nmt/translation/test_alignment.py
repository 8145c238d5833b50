from pathlib import Path

import pytest
import torch

from nmt.base.errors import UserError
from nmt.config import Architecture
from nmt.data.batch import collate
from nmt.tokenizer import Tokenizer
from nmt.trained_model import TrainedModel
from nmt.translation.alignment import Aligner, pharaoh, sum_by_words
from nmt.translation.forced import ForcedDecoder
from tests.support import tiny_trained_model


def test_word_index_of_each_piece(tokenizer: Tokenizer) -> None:
    texts = ["  Kalo  mine.", "a\u3000😀b ﬁ", "", " "]
    for text, words in zip(texts, tokenizer.word_indices(texts), strict=True):
        pieces = tokenizer.pieces(tokenizer.encode([text])[0])
        assert len(pieces) == len(words)
        assert words == sorted(words)
        assert set(words) == set(range(len(text.split())))
        for index in range(1, len(pieces)):
            # A piece starts a word if it starts with a space.
            assert (words[index] > words[index - 1]) == pieces[index].startswith("▁")


def test_a_null_character_does_not_separate_words(tokenizer: Tokenizer) -> None:
    [words] = tokenizer.word_indices(["a\0b c"])
    assert set(words) == {0, 1}


def test_weights_are_summed_over_the_pieces_of_words() -> None:
    weights = torch.tensor([[0.3, 0.3, 0.4], [0.1, 0.1, 0.8], [0.5, 0.5, 0.0]])
    by_words = sum_by_words(weights, [0, 0, 1], [0, 0, 1], ["▁a", "b", "▁c"], ["▁x", "y", "▁z"])
    torch.testing.assert_close(by_words, torch.tensor([[0.8, 1.2], [1.0, 0.0]]))
    # A full stop is ignored unless it is the whole word.
    by_words = sum_by_words(weights, [0, 0, 1], [0, 0, 1], ["▁a", ".", "▁!"], ["▁x", "?", "▁z"])
    torch.testing.assert_close(by_words, torch.tensor([[0.3, 0.4], [0.5, 0.0]]))


def test_cross_attention_is_that_of_the_model(trained_model: TrainedModel) -> None:
    pairs = [([5, 6, 7, 8], [9, 10]), ([5], [6, 7, 8])]
    found = dict(ForcedDecoder(trained_model).cross_attention(pairs))
    for pair, layers in zip(pairs, [found[0], found[1]], strict=True):
        batch = collate([pair], *trained_model.tokenizers)
        maps = trained_model.network.attention_maps(
            batch.source, batch.source_mask, batch.target_input
        )
        for ours, theirs in zip(layers, maps["cross"], strict=True):
            torch.testing.assert_close(ours, theirs[0], atol=1e-5, rtol=1e-4)


def test_links(trained_model: TrainedModel) -> None:
    aligner = Aligner(trained_model)
    sources, targets = ["Kalo mine ra.", "", "Kalo.", "ka " * 40], ["Zuve ra", "Zuve", "", "ra"]
    first, *others = aligner.links(sources, targets)
    assert first is not None
    assert [target for _, target in first] == [0, 1]
    assert all(0 <= source < 3 for source, _ in first)
    assert others == [[], [], None]
    assert pharaoh([(0, 0), (2, 1)]) == "0-0 2-1"
    # Other pairs of the batch do not change the links.
    assert aligner.links(sources[:1], targets[:1]) == [first]
    with pytest.raises(UserError, match="alignment_layer=3 is not between 1 and 2"):
        Aligner(trained_model, 3)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_model_without_attention_is_named(layer: int, tokenizer_path: Path) -> None:
    model = tiny_trained_model(tokenizer_path, architecture=Architecture.bytenet)
    with pytest.raises(UserError, match=r"model\.architecture=bytenet has no attention"):
        Aligner(model, layer)
