"""Forced decoding: what the model makes of translations that are given to it."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from nmt.data.batch import Batch, collate
from nmt.trained_model import TrainedModel, special_ids

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and of a translation, without BOS and EOS."""

# Attention of a batch has H values for each of so many pairs of positions, a layer and kind.
_MOST_CELLS = 2**18
# Rows projected at a time: their logits have V columns.
_ROWS = 1024


class ForcedDecoder:
    """Gives translations to the decoder as they are.

    Args:
        model: the model; it is used as it is, on the device where it is.
        batch_size: pairs decoded together; it changes no result beyond rounding.
    """

    def __init__(self, model: TrainedModel, batch_size: int = 64) -> None:
        self._model = model
        self._batch_size = batch_size

    def fits(self, pair: Pair) -> bool:
        """Whether both sides are short enough for the model, EOS or BOS included."""
        source, target = pair
        config = self._model.config
        return (
            len(source) < min(config.max_source_length, config.model.max_length)
            and len(target) < config.model.max_length
        )

    def token_log_probs(
        self, pairs: Sequence[Pair], progress: Callable[[int], None] | None = None
    ) -> list[list[float]]:
        """Log-probability of each token of each translation, EOS last, as search counts them.

        Args:
            pairs: they all fit.
            progress: called with the number of pairs just done.
        """
        transformer = self._model.transformer
        found: list[list[float]] = [[] for _ in pairs]
        for places, batch in self._batches(pairs):
            with torch.inference_mode():
                hidden = transformer(batch.source, batch.source_mask, batch.target_input)
                rows = hidden.flatten(0, 1)[batch.target_places]  # (tokens, D)
                tokens = batch.target_output.flatten()[batch.target_places]  # (tokens,)
                log_probs: list[float] = []
                for some, right in zip(
                    torch.split(rows, _ROWS), torch.split(tokens, _ROWS), strict=True
                ):
                    logits = transformer.project(some).float()
                    chosen = logits.gather(1, right[:, None])[:, 0]
                    log_probs += (chosen - logits.logsumexp(dim=1)).tolist()
            first = 0
            for place in places:
                length = len(pairs[place][1]) + 1
                found[place] = log_probs[first : first + length]
                first += length
            if progress:
                progress(len(places))
        return found

    def cross_attention(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, list[Tensor]]]:
        """The place of each pair, and each decoder layer's (H, T, S) weights; EOS is last in both.

        They come batch by batch, in no order of the places: those of all pairs, of every layer and
        head, are more than memory may hold.
        """
        for places, batch in self._batches(pairs):
            with torch.inference_mode():
                layers = self._model.transformer.attention_maps(
                    batch.source, batch.source_mask, batch.target_input
                )["cross"]
            for row, place in enumerate(places):
                source, target = pairs[place]
                weights = [
                    layer[row, :, : len(target) + 1, : len(source) + 1].float().cpu()
                    for layer in layers
                ]
                yield place, weights

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], Batch]]:
        """Pairs of like length together, the longest first, and their places."""
        model = self._model
        lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
        order = sorted(range(len(pairs)), key=lambda place: -lengths[place])
        source_ids, target_ids = (
            special_ids(model.source_tokenizer),
            special_ids(model.target_tokenizer),
        )
        was_training = model.transformer.training
        model.transformer.eval()
        first = 0
        while first < len(order):
            most = max(1, _MOST_CELLS // lengths[order[first]] ** 2)
            places = order[first : first + min(most, self._batch_size)]
            batch = collate([pairs[place] for place in places], source_ids, target_ids)
            yield places, batch.to(model.device)
            first += len(places)
        model.transformer.train(was_training)
