"""Forced decoding: scores and attention of given translations."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from nmt.base.errors import UserError
from nmt.base.progress import Advance
from nmt.config import DecodingConfig
from nmt.data.batch import Batch, collate
from nmt.search.hypothesis import Hypothesis, length_penalty
from nmt.trained_model import TrainedModel
from nmt.translation.engine import length_batches

Pair = tuple[Sequence[int], Sequence[int]]
"""Ids of a source and of a translation, without BOS and EOS."""

# Largest B · L · L, the attention weights of a batch in one head of one layer.
_MAX_WEIGHTS = 2**18
# Number of target tokens projected to logits at a time.
_PROJECTED_ROWS = 1024


class ForcedDecoder:
    """Decodes given translations; the batch size changes results only by rounding."""

    def __init__(self, model: TrainedModel, batch_size: int = 64) -> None:
        self._model = model
        self._batch_size = batch_size

    def fits(self, pair: Pair) -> bool:
        """Return whether both sides are short enough for the model."""
        source, target = pair
        config = self._model.config
        return len(source) < config.max_source_length and len(target) < config.model.max_length

    @torch.inference_mode()
    def token_log_probs(
        self, pairs: Sequence[Pair], progress: Advance | None = None
    ) -> list[list[float]]:
        """Return the log-probability of each token of each translation, EOS last.

        All pairs must fit. `progress` is called with the number of pairs just completed.

        Raises:
            UserError: a log-probability is not finite.
        """
        network = self._model.network
        found: list[list[float]] = [[] for _ in pairs]
        for indices, batch in self._batches(pairs):
            hidden = network(batch.source, batch.source_mask, batch.target_input)  # (B, T, D)
            rows = hidden.flatten(0, 1)[batch.target_indices]  # (tokens, D)
            tokens = batch.target_output.flatten()[batch.target_indices]  # (tokens,)
            log_probs: list[float] = []
            for start in range(0, len(rows), _PROJECTED_ROWS):
                part = slice(start, start + _PROJECTED_ROWS)
                logits = network.project(rows[part])
                if logits.dtype is not torch.float64:
                    logits = logits.float()
                chosen = logits.gather(1, tokens[part, None])[:, 0]
                log_probs += (chosen - logits.logsumexp(dim=1)).tolist()
            if not all(map(math.isfinite, log_probs)):
                raise UserError("the scores of the model are not finite: its weights are damaged")
            values = iter(log_probs)
            for index in indices:
                found[index] = [next(values) for _ in range(len(pairs[index][1]) + 1)]
            if progress:
                progress(len(indices))
        return found

    @torch.inference_mode()
    def cross_attention(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, list[Tensor]]]:
        """Yield the index of each pair and the cross-attention (H, T, S) of each decoder layer.

        EOS is the last row and column. Pairs come batch by batch, because all weights together
        may not fit into memory.
        """
        for indices, batch in self._batches(pairs):
            maps = self._model.network.attention_maps(
                batch.source, batch.source_mask, batch.target_input
            )
            for row, index in enumerate(indices):
                source, target = pairs[index]
                size = slice(None), slice(len(target) + 1), slice(len(source) + 1)
                yield index, [layer[row][size].float().cpu() for layer in maps["cross"]]

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[tuple[list[int], Batch]]:
        """Yield batches of pairs of similar length, the longest first, and their indices."""
        model = self._model
        lengths = [max(len(source), len(target)) + 1 for source, target in pairs]
        was_training = model.network.training
        model.network.eval()
        for indices in length_batches(
            lengths, lambda length: min(self._batch_size, max(1, _MAX_WEIGHTS // length**2))
        ):
            batch = collate([pairs[index] for index in indices], *model.tokenizers)
            yield indices, batch.to(model.device)
        model.network.train(was_training)


def score_pairs(
    model: TrainedModel,
    pairs: Sequence[tuple[str, str]],
    config: DecodingConfig,
    progress: Advance | None = None,
) -> list[Hypothesis | None]:
    """Score each pair (source, translation); None if either is too long for the model.

    Scores have the length penalty of `config`. `progress` is called as in `token_log_probs`.
    """
    forced = ForcedDecoder(model)
    source_ids = model.source_tokenizer.encode([source for source, _ in pairs])
    target_ids = model.target_tokenizer.encode([target for _, target in pairs])
    ids = list(zip(source_ids, target_ids, strict=True))
    scores: list[Hypothesis | None] = [None] * len(ids)
    fitting = [index for index, pair in enumerate(ids) if forced.fits(pair)]
    found = forced.token_log_probs([ids[index] for index in fitting], progress)
    for index, log_probs in zip(fitting, found, strict=True):
        total = sum(log_probs)
        score = total / length_penalty(len(log_probs), config)
        scores[index] = Hypothesis(ids[index][1], total, score, log_probs)
    return scores
