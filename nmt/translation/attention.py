"""Cross-attention of the decoder on single sentences, for the pages that show it."""

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.trained_model import TrainedModel
from nmt.translation.forced import ForcedDecoder
from nmt.translation.formats import END

_MAX_PIECES = 16


@dataclass(frozen=True)
class AttentionMap:
    """Cross-attention of the last decoder layer on one sentence.

    Attributes:
        source: pieces of the source, EOS last.
        target: pieces of the translation, EOS last.
        mean: weights averaged over the heads; each row sums to one.  # (T, S)
        heads: weights of each head.  # (H, T, S)
    """

    source: list[str]
    target: list[str]
    mean: list[list[float]]
    heads: list[list[list[float]]]


def attention_map(model: TrainedModel, source: str, translation: str) -> AttentionMap:
    """Compute the attention weights while the decoder is forced to produce a translation."""
    source_ids = model.source_tokenizer.encode([source])[0]
    target_ids = model.target_tokenizer.encode([translation])[0]
    [(_, layers)] = ForcedDecoder(model).cross_attention([(source_ids, target_ids)])
    return AttentionMap(
        [*model.source_tokenizer.pieces(source_ids), END],
        [*model.target_tokenizer.pieces(target_ids), END],
        layers[-1].mean(dim=0).tolist(),
        layers[-1].tolist(),
    )


def short_sentences(
    model: TrainedModel, sources: Sequence[str], translations: Sequence[str], number: int
) -> list[int]:
    """Return the indices of at most `number` evenly spaced sentences that are short enough."""
    limits = (model.config.max_source_length, model.config.model.max_length)
    longest = min(_MAX_PIECES, *(limit - 1 for limit in limits))
    pairs = zip(
        model.source_tokenizer.encode(sources),
        model.target_tokenizer.encode(translations),
        strict=True,
    )
    fit = [i for i, pair in enumerate(pairs) if all(1 <= len(ids) <= longest for ids in pair)]
    return sorted({fit[len(fit) * i // number] for i in range(number)} if fit else ())
