"""Attention weights on single sentences, for the pages that show them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nmt.data.batch import collate
from nmt.trained_model import TrainedModel
from nmt.translation.formats import END

_MAX_PIECES = 16


@dataclass(frozen=True)
class SentenceAttention:
    """All attention weights on one sentence and its translation.

    Attributes:
        source: pieces of the source, EOS last.
        target: pieces of the translation, EOS last.
        kinds: `encoder` (H, S, S), `decoder` (H, T, T) and `cross` (H, T, S) of each layer. Row t
            of `decoder` and `cross` predicts target piece t. Column t of `decoder` is target piece
            t - 1; column 0 is BOS.
    """

    source: list[str]
    target: list[str]
    kinds: dict[str, list[torch.Tensor]]


@torch.inference_mode()
def sentence_attention(model: TrainedModel, source: str, translation: str) -> SentenceAttention:
    """Compute all attention weights for a given translation; UserError if the model has none."""
    source_ids = model.source_tokenizer.encode([source])[0]
    target_ids = model.target_tokenizer.encode([translation])[0]
    batch = collate([(source_ids, target_ids)], *model.tokenizers).to(model.device)
    was_training = model.network.training
    model.network.eval()
    try:
        maps = model.network.attention_maps(batch.source, batch.source_mask, batch.target_input)
    finally:
        model.network.train(was_training)
    return SentenceAttention(
        [*model.source_tokenizer.pieces(source_ids), END],
        [*model.target_tokenizer.pieces(target_ids), END],
        {kind: [layer[0].float().cpu() for layer in layers] for kind, layers in maps.items()},
    )


def short_sentences(
    model: TrainedModel, sources: Sequence[str], translations: Sequence[str], num_sentences: int
) -> list[int]:
    """Return the indices of at most `num_sentences` evenly spaced sentences that can be drawn.

    Their sources and translations have 1 to 16 pieces and are short enough for the model. If the
    model has no attention, the list is empty.
    """
    if not model.network.num_attention_layers:
        return []
    longest = min(_MAX_PIECES, model.config.max_source_length - 1)
    pairs = zip(
        model.source_tokenizer.encode(sources),
        model.target_tokenizer.encode(translations),
        strict=True,
    )
    fit = [i for i, pair in enumerate(pairs) if all(1 <= len(ids) <= longest for ids in pair)]
    return sorted({fit[len(fit) * i // num_sentences] for i in range(num_sentences) if fit})
