"""Word alignment of translations by the cross-attention of the model."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.base.errors import UserError
from nmt.trained_model import TrainedModel
from nmt.translation.forced import ForcedDecoder
from nmt.translation.request import Links


def pharaoh(links: Links) -> str:
    """Format links as `0-0 1-2`: source word, target word."""
    return " ".join(f"{source}-{target}" for source, target in links)


class Aligner:
    """Links each word of a translation to the source word that it attends to most.

    The decoder is forced to produce the translation. The attention weights of one decoder layer are
    averaged over heads and summed over the pieces of words.

    Args:
        model: the model.
        layer: decoder layer, counted from 1; 0 takes the model's `aligning_layer`.

    Raises:
        UserError: the model has no such layer, or no attention.
    """

    def __init__(self, model: TrainedModel, layer: int = 0) -> None:
        num_layers = model.network.num_attention_layers
        if not num_layers:
            raise UserError(
                f"model.architecture={model.config.model.architecture} has no attention, which"
                " links between words need; use a model of another architecture"
            )
        if not 0 <= layer <= num_layers:
            raise UserError(f"alignment_layer={layer} is not between 1 and {num_layers}")
        self._tokenizers = model.tokenizers
        self._forced = ForcedDecoder(model)
        self._layer = layer - 1 if layer else model.network.aligning_layer

    def links(self, sources: Sequence[str], translations: Sequence[str]) -> list[Links | None]:
        """Return the links of each pair in target order; None for a pair too long for the model."""
        found = self.weights(sources, translations)
        return [None if weights is None else _links(weights) for weights in found]

    def weights(
        self, sources: Sequence[str], translations: Sequence[str]
    ) -> list[NDArray[np.float32] | None]:
        """Return how much each word of each translation attends to each source word.

        The weights are (target words, source words), or (0, 0) where a side is empty; None for a
        pair too long for the model.
        """
        source, target = self._tokenizers
        pairs = list(zip(source.encode(sources), target.encode(translations), strict=True))
        source_words, target_words = source.word_indices(sources), target.word_indices(translations)
        empty = np.zeros((0, 0), dtype=np.float32)
        found = [empty if self._forced.fits(pair) else None for pair in pairs]
        indices = [i for i, pair in enumerate(pairs) if found[i] is not None and all(pair)]
        for number, layers in self._forced.cross_attention([pairs[i] for i in indices]):
            index = indices[number]
            weights = layers[self._layer].mean(dim=0)[:-1, :-1]  # (T, S), without EOS
            words = source_words[index], target_words[index]
            source_ids, target_ids = pairs[index]
            pieces = source.pieces(source_ids), target.pieces(target_ids)
            found[index] = sum_by_words(weights, *words, *pieces).numpy()
        return found


def _links(weights: NDArray[np.float32]) -> Links:
    best = weights.argmax(1).tolist() if weights.size else []
    return [(source, target) for target, source in enumerate(best)]


def sum_by_words(
    weights: Tensor,
    source_words: list[int],
    target_words: list[int],
    source_pieces: list[str],
    target_pieces: list[str],
) -> Tensor:
    """Sum weights (T, S) of pieces over words; the result is (target words, source words).

    `source_words` and `target_words` give the word index of each piece.
    """
    # Attention without a clear target is often on punctuation, so punctuation in words is ignored.
    weights = weights * _has_content(target_words, target_pieces)[:, None]
    weights = weights * _has_content(source_words, source_pieces)
    by_source = torch.zeros(len(weights), source_words[-1] + 1)
    by_source.index_add_(1, torch.tensor(source_words), weights)
    by_target = torch.zeros(target_words[-1] + 1, source_words[-1] + 1)
    return by_target.index_add_(0, torch.tensor(target_words), by_source)


def _has_content(words: list[int], pieces: list[str]) -> Tensor:
    """Return 1 for each piece that has letters or digits, or whose word has none, else 0."""
    has_content = [any(map(str.isalnum, piece)) for piece in pieces]
    both = list(zip(words, has_content, strict=True))
    content_words = {word for word, has in both if has}
    return torch.tensor([float(has or word not in content_words) for word, has in both])
