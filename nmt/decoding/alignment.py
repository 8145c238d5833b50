"""Which words of the source a translation's words come from, by the decoder's own attention."""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.forced import ForcedDecoder
from nmt.errors import UserError
from nmt.tokenizer import WORD_BEGIN
from nmt.trained_model import TrainedModel

Links = list[tuple[int, int]]
"""Places of a source word and of a target word, from 0; words are what white space parts."""


def pharaoh(links: Links) -> str:
    """`0-0 1-2`: source word, target word."""
    return " ".join(f"{source}-{target}" for source, target in links)


class Aligner:
    """Aligns translations with their sources, word by word.

    The translation is given to the decoder as it is. Each of its words is linked to the source word
    that one decoder layer attends to most, averaged over heads, as its pieces are said.

    Args:
        model: the model.
        layer: the decoder layer, from 1; 0 takes the model's `aligning_layer`.

    Raises:
        UserError: the model has no such layer.
    """

    def __init__(self, model: TrainedModel, layer: int = 0) -> None:
        num_layers = model.config.model.num_decoder_layers
        if not 0 <= layer <= num_layers:
            raise UserError(f"alignment_layer={layer} is not between 1 and {num_layers}")
        self._model = model
        self._forced = ForcedDecoder(model)
        self._layer = layer - 1 if layer else model.transformer.aligning_layer

    def links(self, sources: Sequence[str], translations: Sequence[str]) -> list[Links | None]:
        """The links of each pair, by target word; None where a side is too long for the model."""
        tokenizers = self._model.source_tokenizer, self._model.target_tokenizer
        source_ids, target_ids = tokenizers[0].encode(sources), tokenizers[1].encode(translations)
        pairs = list(zip(source_ids, target_ids, strict=True))
        words = list(
            zip(tokenizers[0].words(sources), tokenizers[1].words(translations), strict=True)
        )
        found: list[Links | None] = [[] if self._forced.fits(pair) else None for pair in pairs]
        places = [place for place, pair in enumerate(pairs) if found[place] is not None]
        # A side without words has no links.
        places = [place for place in places if all(pairs[place])]
        for number, layers in self._forced.cross_attention([pairs[place] for place in places]):
            place = places[number]
            source_pieces, target_pieces = (
                tokenizer.pieces(ids)
                for tokenizer, ids in zip(tokenizers, pairs[place], strict=True)
            )
            weights = layers[self._layer].mean(dim=0)[:-1, :-1]  # (T, S), without EOS
            by_words = _by_words(weights, *words[place], source_pieces, target_pieces)
            found[place] = [
                (source, target) for target, source in enumerate(by_words.argmax(dim=1).tolist())
            ]
        return found


def _by_words(
    weights: Tensor,
    source_words: list[int],
    target_words: list[int],
    source_pieces: list[str],
    target_pieces: list[str],
) -> Tensor:
    """(T, S) weights of pieces, summed over those of each word."""
    # Attention that has nothing to look for rests on full stops: they do not speak for their words.
    rows = _speaking(target_words, target_pieces)
    columns = _speaking(source_words, source_pieces)
    weights = weights * rows[:, None] * columns
    num_source, num_target = source_words[-1] + 1, target_words[-1] + 1
    by_source = torch.zeros(len(weights), num_source).index_add_(
        1, torch.tensor(source_words), weights
    )
    return torch.zeros(num_target, num_source).index_add_(0, torch.tensor(target_words), by_source)


def _speaking(words: list[int], pieces: list[str]) -> Tensor:
    """1 at pieces with letters or digits, and at all pieces of words without any, else 0."""
    has_letters = [any(map(str.isalnum, piece.strip(WORD_BEGIN))) for piece in pieces]
    lettered = {word for word, has in zip(words, has_letters, strict=True) if has}
    return torch.tensor(
        [
            1.0 if has or word not in lettered else 0.0
            for word, has in zip(words, has_letters, strict=True)
        ]
    )
